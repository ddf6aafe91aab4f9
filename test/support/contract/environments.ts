import { describe, expect, it } from "vitest";
import { DEFAULT_PARTITIONS, type EnvironmentName } from "../../../src/domain/environment.ts";
import { RecordUnreadable } from "../../../src/domain/errors.ts";
import { RedisEnvironments, wantedNumber } from "../../../src/store/environments.ts";
import { environmentKey, environmentNumberKey } from "../../../src/store/keys.ts";
import { type ContractContext, fails, newEnvironment } from "./context.ts";

/** `ensureEnvironment` and `ping`. */
export function environmentContract({ clients, redis }: ContractContext): void {
  const ensure = (name: EnvironmentName) =>
    Promise.all(clients().map((client) => new RedisEnvironments(client).ensureEnvironment(name)));

  describe("ensureEnvironment", () => {
    it("makes what is missing, and leaves what is there", async () => {
      const { name } = newEnvironment();
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
      const { name } = newEnvironment();
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

  it("answers a ping", async () => {
    for (const client of clients()) await expect(client.ping()).resolves.toBeUndefined();
  });
}
