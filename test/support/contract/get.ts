import { describe, expect, it } from "vitest";
import { type ContractContext, contents, eventsOf, newEnvironment, newGroup } from "./context.ts";

export function getContract({ store, client, redis, many }: ContractContext): void {
  describe("getOrCreate", () => {
    it("creates a group with the given values", async () => {
      const environment = await newEnvironment({ tag: "Customer" });
      const before = Date.now();
      const given = newGroup("a", { name: "Acme", mapping: { s: "d" }, properties: { x: [1, null, { y: "z" }] } });
      const { group, created } = await store().getOrCreate(environment, given);
      expect(created).toBe(true);
      expect(group).toEqual({
        ...given,
        teamId: expect.any(Number),
        token: expect.stringMatching(/^ugt_[0-9A-Za-z]{38}$/),
        etag: expect.stringMatching(/^.{8,}$/),
        createTime: expect.any(Number),
        updateTime: group.createTime,
        tokenCreateTime: group.createTime,
      });
      expect(group.createTime).toBeGreaterThanOrEqual(before);
      expect(group.createTime).toBeLessThanOrEqual(Date.now());
    });

    it("returns an existing group unchanged, and writes nothing", async () => {
      const environment = await newEnvironment();
      const first = await store().getOrCreate(environment, newGroup("a", { properties: { p: 1 } }));
      const before = await contents(redis(), environment);
      const other = newGroup("a", { name: "Other", mapping: { x: "y" }, properties: { q: 2 } });
      for (const worker of [0, 1]) {
        expect(await store({ worker }).getOrCreate(environment, other)).toEqual({ group: first.group, created: false });
      }
      expect(await contents(redis(), environment)).toEqual(before);
    });

    it("creates only one group for concurrent calls, and returns this group to each of them", async () => {
      const environment = await newEnvironment();
      const calls = Array.from({ length: many(100) }, (_, worker) =>
        store({ worker }).getOrCreate(environment, newGroup("a", { name: `creator ${worker}` })),
      );
      const answers = await Promise.all(calls);
      expect(answers.filter(({ created }) => created)).toHaveLength(1);
      const winner = answers.find(({ created }) => created);
      for (const { group } of answers) expect(group).toEqual(winner?.group);
      expect(await eventsOf(client(), environment)).toHaveLength(1);
    });

    it("distinguishes empty properties from no properties", async () => {
      const environment = await newEnvironment();
      await store().getOrCreate(environment, newGroup("none"));
      await store().getOrCreate(environment, newGroup("empty", { name: "", properties: {} }));
      const get = async (id: string) => (await store().getOrCreate(environment, newGroup(id))).group;
      expect((await get("none")).properties).toBeUndefined();
      expect(await get("empty")).toMatchObject({ name: "", properties: {} });
    });
  });
}
