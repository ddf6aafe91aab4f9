import { describe, expect, it } from "vitest";
import { partitionOf, TEAM_IDS, teamIdsOf } from "../../../src/domain/environment.ts";
import { EnvironmentFull } from "../../../src/domain/errors.ts";
import { KEY } from "../../../src/store/keys.ts";
import { byId, type ContractContext, contents, fails, keysOf, newEnvironment, newGroup } from "./context.ts";

/** Internal ids. */
export function teamIdContract({ store, redis, many }: ContractContext): void {
  describe("team ids", () => {
    const create = async (environment: ReturnType<typeof newEnvironment>, id: string, worker = 0) =>
      (await store({ worker }).getOrCreate(environment, newGroup(id))).group.teamId;

    it.each([
      [1, 1],
      [64, 7],
      [3844, 2 ** 20 - 1],
    ])("are unique among %i partitions of environment %i, and its own", async (partitions, number) => {
      const environment = newEnvironment({ partitions, number });
      const ids = Array.from({ length: many(300) }, (_, i) => `group ${i}`);
      const teamIds = await Promise.all(ids.map((id, worker) => create(environment, id, worker)));
      expect(new Set(teamIds).size).toBe(ids.length);
      for (const [i, id] of ids.entries()) {
        const teamId = teamIds[i] ?? Number.NaN;
        expect(Number.isSafeInteger(teamId)).toBe(true);
        expect(Math.floor(teamId / TEAM_IDS)).toBe(number);
        const { first, step } = teamIdsOf(environment, partitionOf(environment, id));
        expect((teamId - first) % step).toBe(0);
      }
    });

    it("go from group to group and never change", async () => {
      const environment = newEnvironment();
      const a = await create(environment, "a");
      const b = await create(environment, "b", 1);
      expect(b).not.toBe(a);
      expect((await store().rotate(environment, byId("a"))).teamId).toBe(a);
      expect((await store().update(environment, "a", { name: "N" })).teamId).toBe(a);
      expect(await create(environment, "a")).toBe(a);
    });

    it("say so when they have run out, and then nothing is made", async () => {
      const environment = newEnvironment({ partitions: 1 });
      const { prefix } = keysOf(environment, "a");
      await redis().set(prefix + KEY.teamCount, String(TEAM_IDS - 1));
      const last = await create(environment, "a");
      expect(last).toBe((environment.number + 1) * TEAM_IDS - 1);
      const before = await contents(redis(), environment);
      await fails(store().getOrCreate(environment, newGroup("b")), EnvironmentFull);
      expect(await contents(redis(), environment)).toEqual(before);
      expect(await create(environment, "a")).toBe(last);
    });
  });
}
