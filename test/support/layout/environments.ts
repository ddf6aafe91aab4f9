import { describe, expect, it } from "vitest";
import { type EnvironmentName, environmentPath } from "../../../src/domain/environment.ts";
import { EnvironmentExists, RecordUnreadable } from "../../../src/domain/errors.ts";
import { candidateOf } from "../../../src/store/environments.ts";
import { ENVIRONMENTS_KEY, environmentKey, environmentMember } from "../../../src/store/keys.ts";
import { type ContractContext, fails, newGroup, newName } from "../contract/context.ts";
import { testEnvironments } from "../stores.ts";

export function environmentLayout({ client, clients, store, redis }: ContractContext): void {
  const environments = (worker = 0) => testEnvironments(client(worker));
  const ensure = (name: EnvironmentName) =>
    Promise.all(clients().map((each) => testEnvironments(each).ensureEnvironment(name)));
  const named = (): EnvironmentName => ({ name: newName(), tag: undefined });

  describe("environments in Redis", () => {
    it("environments have unique numbers, even if two environments have the same first candidate number", async () => {
      const name = named();
      const wanted = candidateOf(environmentPath(name), 0);
      const other = { state: "active", path: "another/", create_time: "1" };
      await redis().hset(environmentKey(wanted), other);
      const [made] = await ensure(name);
      expect(made?.number).toBe(candidateOf(environmentPath(name), 1));
      expect(await redis().hgetall(environmentKey(wanted))).toEqual(other);
    });

    it("an environment is found if its list entry is lost or has another number, and the entry is repaired", async () => {
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

    it("environments are listed, but list entries without an environment are skipped", async () => {
      const { name } = named();
      for (const tag of [undefined, "Customer"] as const) await environments().create({ name, tag });
      await redis().zadd(ENVIRONMENTS_KEY, 0, `${name}/Customer 9999999`, 0, `${name}0/ 1`);
      const { items } = await environments().list({ after: `${name}.`, size: 4 });
      expect(items.filter((one) => one.name.startsWith(name)).map(({ tag }) => tag)).toEqual([undefined, "Customer"]);
    });

    it("an environment causes an error if its record is lost, and is not created again", async () => {
      const name = named();
      const made = await environments().create(name);
      await store().getOrCreate(made, newGroup("a"));
      await redis().del(environmentKey(made.number));
      await fails(environments().ensureEnvironment(name), RecordUnreadable);
      await fails(environments().create(name), RecordUnreadable);
    });

    it("an environment is not created twice if the record of a deleted environment with the same name is lost", async () => {
      const name = named();
      const former = await environments().create(name);
      await environments().delete(name, true);
      const made = await environments().create(name);
      await redis().del(environmentKey(former.number));
      await fails(environments(1).create(name), EnvironmentExists);
      for (const found of await ensure(name)) expect(found.number).toBe(made.number);
    });
  });
}
