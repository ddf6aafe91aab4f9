import { describe, expect, it } from "vitest";
import { type EnvironmentName, environmentPath } from "../../../src/domain/environment.ts";
import { EnvironmentExists, EnvironmentNotFound, RecordUnreadable } from "../../../src/domain/errors.ts";
import { READY_KINDS } from "../../../src/domain/store.ts";
import { candidateOf } from "../../../src/store/environments.ts";
import { ENVIRONMENTS_KEY, environmentKey, environmentMember } from "../../../src/store/keys.ts";
import { ADD_MEMBER, CREATE_ENVIRONMENT } from "../../../src/store/scripts.ts";
import { listedNumbers } from "../stored-keys.ts";
import { testEnvironments } from "../stores.ts";
import { type ContractContext, failingAt, fails, heldUpAt, newGroup, newName, oneWins } from "./context.ts";

/** Environments: creation, lookup and lists. */
export function environmentContract({ client, clients, store, redis }: ContractContext): void {
  const environments = (worker = 0) => testEnvironments(client(worker));
  const ensure = (name: EnvironmentName) =>
    Promise.all(clients().map((each) => testEnvironments(each).ensureEnvironment(name)));
  const named = (tag?: EnvironmentName["tag"]): EnvironmentName => ({ name: newName(), tag });
  const isListed = async (name: EnvironmentName) => (await listedNumbers(redis(), name)).length > 0;

  describe("environments", () => {
    it("are created by the first worker that needs them, and found by every worker", async () => {
      const name = named("Customer");
      for (let worker = 0; worker < 2; worker++) await fails(environments(worker).find(name), EnvironmentNotFound);
      const [first, ...others] = [...(await ensure(name)), ...(await ensure(name))];
      expect(first).toMatchObject(name);
      for (const other of others) expect(other).toEqual(first);
      for (let worker = 0; worker < 2; worker++) expect(await environments(worker).find(name)).toEqual(first);
      await fails(environments().find({ name: name.name, tag: undefined }), EnvironmentNotFound);
    });

    it("are created once under concurrent calls", async () => {
      const name = named("Customer");
      const create = () => clients().map((each) => testEnvironments(each).create(name));
      const made = await oneWins([...create(), ...create(), ...create(), ...create()], EnvironmentExists);
      expect(made).toMatchObject({ ...name, deleteTime: undefined });
      expect(Math.abs(made.createTime - Date.now())).toBeLessThan(60_000);
      for (const found of await ensure(name)) expect(found.number).toBe(made.number);
    });

    it("have unique numbers, also if two would get the same one", async () => {
      const name = named();
      const wanted = candidateOf(environmentPath(name), 0);
      const other = { state: "active", path: "another/", create_time: "1" };
      await redis().hset(environmentKey(wanted), other);
      const [made] = await ensure(name);
      expect(made?.number).toBe(candidateOf(environmentPath(name), 1));
      expect(await redis().hgetall(environmentKey(wanted))).toEqual(other);
    });

    it("are recovered if their list entry is lost or has another number", async () => {
      const name = named();
      const made = await environments().create(name);
      const { group } = await store().getOrCreate(made, newGroup("a"));
      const entryOf = (number: number | "") => environmentMember(environmentPath(name), number);
      for (const wrong of [undefined, made.number + 1, "" as const, 0]) {
        await redis().zrem(ENVIRONMENTS_KEY, entryOf(made.number));
        if (wrong !== undefined) await redis().zadd(ENVIRONMENTS_KEY, 0, entryOf(wrong));
        await fails(environments().create(name), EnvironmentExists);
        expect((await environments().get(name)).number).toBe(made.number);
        for (const found of await ensure(name)) expect(found.number).toBe(made.number);
        expect(await redis().zscore(ENVIRONMENTS_KEY, entryOf(made.number))).not.toBeNull();
      }
      expect((await store().resolve(made, group.token)).providedId).toBe("a");
    });

    it.each([ADD_MEMBER, CREATE_ENVIRONMENT])(
      "are created by the next call if a worker ends before $name",
      async (script) => {
        const name = named();
        await testEnvironments(failingAt(client(), script.name))
          .create(name)
          .catch(() => {});
        const [found] = await ensure(name);
        expect(found).toMatchObject(name);
        expect((await environments(1).find(name)).number).toBe(found?.number);
        expect(await isListed(name)).toBe(true);
      },
    );

    it("are not created twice by a delayed worker", async () => {
      const name = named();
      const slow = heldUpAt(client(), CREATE_ENVIRONMENT.name, () => environments(1).create(name));
      await fails(testEnvironments(slow).create(name), EnvironmentExists);
      const again = named();
      const delayed = [0, 1].map((worker) =>
        heldUpAt(client(worker), ADD_MEMBER.name, () => environments(1).ensureEnvironment(again)),
      );
      const creations = delayed.map((each) => testEnvironments(each).create(again));
      await Promise.all(creations.map((creation) => fails(creation, EnvironmentExists)));
      const { number } = await environments().find(again);
      for (const found of await ensure(again)) expect(found.number).toBe(number);
      expect(await listedNumbers(redis(), again)).toEqual([number]);
    });

    it("are not replaced by an empty environment if their record is lost, and an error reports it", async () => {
      const name = named();
      const made = await environments().create(name);
      await store().getOrCreate(made, newGroup("a"));
      await redis().del(environmentKey(made.number));
      await fails(environments().ensureEnvironment(name), RecordUnreadable);
      await fails(environments().create(name), RecordUnreadable);
    });

    it("are not created a second time if the record of a deleted environment of that name is lost", async () => {
      const name = named();
      const former = await environments().create(name);
      await environments().delete(name, true);
      const made = await environments().create(name);
      await redis().del(environmentKey(former.number));
      await fails(environments(1).create(name), EnvironmentExists);
      for (const found of await ensure(name)) expect(found.number).toBe(made.number);
    });

    it("are listed in pages", async () => {
      const { name } = named();
      const names: EnvironmentName[] = [undefined, "Customer" as const, "Testing" as const].map((tag) => ({
        name,
        tag,
      }));
      for (const one of names) await environments().create(one);
      const { number } = await environments().find({ name, tag: "Customer" });
      await redis().zrem(ENVIRONMENTS_KEY, `${name}/Customer ${number}`);
      await environments().ensureEnvironment({ name, tag: "Customer" });
      // Entries without an environment.
      await redis().zadd(ENVIRONMENTS_KEY, 0, `${name}/Customer 9999999`, 0, `${name}0/ 1`);
      const page = await environments().list({ after: `${name}.`, size: 2 });
      expect(page.items).toMatchObject(names.slice(0, 2));
      expect(page.next).toBe(`${name}/Customer ${number}`);
      const { items } = await environments().list({ after: page.next ?? "", size: 4 });
      expect(items.filter((one) => one.name.startsWith(name))).toMatchObject([names[2]]);
    });
  });

  it.each(READY_KINDS)("passes the check of %s", async (kind) => {
    for (const each of clients()) await expect(each.check(kind)).resolves.toBeUndefined();
  });
}
