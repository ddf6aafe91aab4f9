import { describe, expect, it } from "vitest";
import { DEFAULT_PARTITIONS, type EnvironmentName } from "../../../src/domain/environment.ts";
import { EnvironmentExists, EnvironmentNotFound, RecordUnreadable } from "../../../src/domain/errors.ts";
import { READY_KINDS } from "../../../src/domain/store.ts";
import { wantedNumber } from "../../../src/store/environments/environments.ts";
import { ENVIRONMENTS_KEY, environmentKey, environmentNumberKey } from "../../../src/store/keys.ts";
import { testEnvironments } from "../stores.ts";
import { type ContractContext, fails, newEnvironment, oneWins } from "./context.ts";

/** `ensureEnvironment` and `ping`. */
export function environmentContract({ clients, redis }: ContractContext): void {
  const ensure = (name: EnvironmentName) =>
    Promise.all(clients().map((client) => testEnvironments(client).ensureEnvironment(name)));

  /** A name whose environments get the first numbers that they want: now and then another one has such a number. */
  const newName = async (): Promise<string> => {
    for (;;) {
      const { name } = newEnvironment();
      const wanted = ["", "Customer", "Testing"].flatMap((tag) => [0, 1].map((i) => wantedNumber(`${name}/${tag}`, i)));
      const taken = await Promise.all(wanted.map((number) => redis().exists(environmentNumberKey(number))));
      if (taken.every((count) => count === 0)) return name;
    }
  };

  describe("ensureEnvironment", () => {
    it("makes what is missing, and leaves what is there", async () => {
      const name = await newName();
      const customer = { name, tag: "Customer" } as const;
      for (let tries = 0; tries < 2; tries++) {
        for (const made of await ensure(customer)) {
          expect(made).toEqual({
            ...customer,
            partitions: DEFAULT_PARTITIONS,
            number: wantedNumber(`${name}/Customer`, 0),
          });
        }
      }
      const stored = { partitions: "7", create_time: "1", number: "9" };
      await redis().hset(environmentKey(customer), stored);
      for (const found of await ensure(customer)) expect(found).toMatchObject({ partitions: 7, number: 9 });
      expect(await redis().hgetall(environmentKey(customer))).toEqual(stored);
      expect(await redis().exists(environmentKey({ name, tag: undefined }))).toBe(0);
    });

    it.each([
      ...["0", "-1", "3845", "1.5", "x", ""].map((value) => ["partitions", value] as const),
      ...["0", "-1", "1048576", "1.5", "x", ""].map((value) => ["number", value] as const),
    ])("refuses one whose %s is %j", async (field, value) => {
      const name = { name: newEnvironment().name, tag: undefined };
      await redis().hset(environmentKey(name), field, value);
      await fails(ensure(name), RecordUnreadable);
    });

    it("gives each a number of its own, also where two would have the same", async () => {
      const name = await newName();
      const number = wantedNumber(`${name}/`, 0);
      await redis().set(environmentNumberKey(number), "another/");
      const [made] = await ensure({ name, tag: undefined });
      expect(made?.number).toBe(wantedNumber(`${name}/`, 1));
      expect(await redis().get(environmentNumberKey(number))).toBe("another/");
    });

    it("gives one that was forgotten the number that it had", async () => {
      const { name } = newEnvironment();
      const environment = { name, tag: undefined };
      await redis().set(environmentNumberKey(wantedNumber(`${name}/`, 0)), "another/");
      const before = await ensure(environment);
      await redis().del(environmentKey(environment));
      expect(await ensure(environment)).toEqual(before);
    });

    it("says so when no number is left for it", async () => {
      const { name } = newEnvironment();
      for (let tries = 0; tries < 20; tries++) {
        await redis().set(environmentNumberKey(wantedNumber(`${name}/`, tries)), "another/");
      }
      await fails(ensure({ name, tag: undefined }), RecordUnreadable);
    });
  });

  describe("environments", () => {
    const stores = () => clients().map((client) => testEnvironments(client));
    const first = () => stores()[0] as ReturnType<typeof testEnvironments>;

    it("are made once, whole, and found by every worker", async () => {
      const name = await newName();
      const customer = { name, tag: "Customer" } as const;
      for (const store of stores()) await fails(store.find(customer), EnvironmentNotFound);
      const create = () => stores().map((store) => store.create({ ...customer, partitions: 7 }));
      const made = await oneWins([...create(), ...create(), ...create(), ...create()], EnvironmentExists);
      expect(made).toMatchObject({ ...customer, partitions: 7, number: wantedNumber(`${name}/Customer`, 0) });
      for (const store of stores()) {
        expect(await store.find(customer)).toMatchObject({ ...customer, partitions: 7 });
        expect(await store.ensureEnvironment(customer)).toMatchObject({ ...customer, partitions: 7 });
        await fails(store.find({ name, tag: undefined }), EnvironmentNotFound);
      }
    });

    it("are listed in pages, also one that was there before there was a list", async () => {
      const { name } = newEnvironment();
      const names: EnvironmentName[] = [
        { name, tag: undefined },
        { name, tag: "Customer" },
        { name, tag: "Testing" },
      ];
      for (const one of names) await first().create({ ...one, partitions: 3 });
      await redis().zrem(ENVIRONMENTS_KEY, `${name}/Customer`);
      await first().ensureEnvironment({ name, tag: "Customer" });
      // What is listed and was never made is left out.
      await redis().zadd(ENVIRONMENTS_KEY, 0, `${name}/Customer2`, 0, `${name}0/`);
      const page = await first().list({ after: `${name}.`, size: 2 });
      expect(page.items).toMatchObject(names.slice(0, 2).map((one) => ({ ...one, partitions: 3 })));
      expect(page.next).toBe(`${name}/Customer`);
      const { items } = await first().list({ after: page.next ?? "", size: 3 });
      expect(items.filter((one) => one.name.startsWith(name))).toMatchObject([names[2]]);
      expect(Math.abs((items[0]?.createTime ?? 0) - Date.now())).toBeLessThan(60_000);
    });
  });

  it.each(READY_KINDS)("passes the check of %s", async (kind) => {
    for (const client of clients()) await expect(client.check(kind)).resolves.toBeUndefined();
  });
}
