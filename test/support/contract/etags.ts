import { describe, expect, it } from "vitest";
import { EtagMismatch } from "../../../src/domain/errors.ts";
import { loseEvents, setLastVersion } from "../stored-state.ts";
import { byId, type ContractContext, eventsOf, fails, newGroup } from "./context.ts";

export function etagContract({ store, admin, client, redis, withGroup }: ContractContext): void {
  describe("etags", () => {
    it("etags differ for every change, even within one millisecond", async () => {
      const { environment, group } = await withGroup();
      const changes = Array.from({ length: 50 }, (_, i) =>
        i % 5 === 0
          ? store().rotate(environment, byId("a"))
          : store({ worker: i }).update(environment, "a", { name: `name ${i}` }),
      );
      const groups = [group, ...(await Promise.all(changes))];
      expect(new Set(groups.map(({ etag }) => etag)).size).toBe(51);
    });

    it("etags of a deleted group do not match a later group with the same id", async () => {
      const { environment, group } = await withGroup();
      const seen = [group.etag];
      for (let i = 0; i < 10; i++) {
        await admin().delete(environment, "a");
        const { group: next } = await store().getOrCreate(environment, newGroup("a"));
        for (const etag of seen) await fails(store().update(environment, "a", { name: "x" }, etag), EtagMismatch);
        expect(seen).not.toContain(next.etag);
        seen.push(next.etag);
      }
    });

    it("etags differ and event ids increase, even if the store's clock is behind the last change", async () => {
      const { environment, group } = await withGroup();
      // Simulates a clock that was an hour ahead at the last change, and was set back after this change.
      const ahead = (Date.now() + 3_600_000) * 1000;
      await setLastVersion(redis(), environment, ahead);
      const first = await store().update(environment, "a", { name: "1" });
      const second = await store().update(environment, "a", { name: "2" });
      expect([first.updateTime, second.updateTime]).toEqual([ahead / 1000, ahead / 1000]);
      expect(new Set([group.etag, first.etag, second.etag]).size).toBe(3);
      expect((await eventsOf(client(), environment)).map(({ id }) => Number(id) - ahead).slice(0, 2)).toEqual([2, 1]);
    });

    it("etags and event ids are not repeated, even if Redis loses the events of the day", async () => {
      const { environment, group } = await withGroup();
      const ahead = (Date.now() + 3_600_000) * 1000;
      await setLastVersion(redis(), environment, ahead);
      const before = await store().update(environment, "a", { name: "1" });
      await loseEvents(redis(), environment);
      const after = await store().update(environment, "a", { name: "2" });
      const { etag } = await store().rotate(environment, byId("a"));
      expect(new Set([group.etag, before.etag, after.etag, etag]).size).toBe(4);
      expect((await eventsOf(client(), environment)).map(({ id }) => Number(id) - ahead)).toEqual([3, 2]);
    });
  });
}
