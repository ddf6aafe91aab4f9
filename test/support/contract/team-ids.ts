import { describe, expect, it } from "vitest";
import { type Environment, TEAM_IDS } from "../../../src/domain/environment.ts";
import { EnvironmentFull } from "../../../src/domain/errors.ts";
import { setGroupsEver } from "../stored-state.ts";
import { byId, type ContractContext, contents, fails, newEnvironment, newGroup } from "./context.ts";

export function teamIdContract({ store, admin, redis, many }: ContractContext): void {
  describe("team ids", () => {
    const create = async (environment: Environment, id: string, worker = 0) =>
      (await store({ worker }).getOrCreate(environment, newGroup(id))).group.teamId;

    it.each([1, 7, 2 ** 20 - 1])("team ids are unique, and contain the environment's number %i", async (number) => {
      const environment = await newEnvironment({ number });
      const ids = Array.from({ length: many(300) }, (_, i) => `group ${i}`);
      const teamIds = await Promise.all(ids.map((id, worker) => create(environment, id, worker)));
      expect(new Set(teamIds).size).toBe(ids.length);
      for (const teamId of teamIds) {
        expect(Number.isSafeInteger(teamId)).toBe(true);
        expect(Math.floor(teamId / TEAM_IDS)).toBe(number);
      }
    });

    it("team ids never change, and are never reused", async () => {
      const environment = await newEnvironment();
      const a = await create(environment, "a");
      const b = await create(environment, "b", 1);
      expect(b).not.toBe(a);
      expect((await store().rotate(environment, byId("a"))).teamId).toBe(a);
      expect((await store().update(environment, "a", { name: "N" })).teamId).toBe(a);
      expect(await create(environment, "a")).toBe(a);
      await admin().delete(environment, "b");
      expect(await create(environment, "b")).toBeGreaterThan(b);
    });

    it("team ids can run out, and a call that must create a group then fails", async () => {
      const environment = await newEnvironment();
      await setGroupsEver(redis(), environment, TEAM_IDS - 1);
      const last = await create(environment, "a");
      expect(last).toBe((environment.number + 1) * TEAM_IDS - 1);
      const before = await contents(redis(), environment);
      await fails(store().getOrCreate(environment, newGroup("b")), EnvironmentFull);
      expect(await contents(redis(), environment)).toEqual(before);
      expect(await create(environment, "a")).toBe(last);
    });
  });
}
