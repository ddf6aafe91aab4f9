import { describe, expect, it } from "vitest";
import { RequestIdReused, TokenNotFound, TokenReplaced, UserGroupNotFound } from "../../../src/domain/errors.ts";
import { byId, byToken, type ContractContext, contents, fails, newGroup } from "./context.ts";

export function requestIdContract({ store, admin, redis, replacements, withGroup }: ContractContext): void {
  describe("rotation with a request id", () => {
    it.each(["r1", "__proto__", "{}", ":*?[", "x".repeat(128)])(
      "returns the same result to a retry with the request id %.9s",
      async (requestId) => {
        const { environment, group } = await withGroup();
        for (const rotation of [byToken(group.token, { requestId }), byId("a", { requestId: `${requestId}-id` })]) {
          const first = await store().rotate(environment, rotation);
          const before = await contents(redis(), environment);
          for (const worker of [0, 1]) expect(await store({ worker }).rotate(environment, rotation)).toEqual(first);
          expect(await contents(redis(), environment)).toEqual(before);
        }
      },
    );

    it("rotates once for concurrent calls with the same request id", async () => {
      const { environment, group } = await withGroup();
      const rotation = byToken(group.token, { requestId: "r", graceMs: 60_000 });
      const calls = Array.from({ length: 50 }, (_, worker) => store({ worker }).rotate(environment, rotation));
      const [first, ...others] = await Promise.all(calls);
      for (const other of others) expect(other).toEqual(first);
      expect((await store().resolve(environment, first?.token ?? "")).tokenExpireTime).toBeUndefined();
    });

    it("returns the current group to a retry, even if other fields have changed", async () => {
      const { environment, group } = await withGroup();
      const rotation = byToken(group.token, { requestId: "r", graceMs: 60_000 });
      const first = await store().rotate(environment, rotation);
      const renamed = await store().update(environment, "a", { name: "Later", properties: { p: 1 } });
      const again = await store().rotate(environment, rotation);
      expect(again).toEqual(renamed);
      expect([again.token, again.tokenCreateTime]).toEqual([first.token, first.tokenCreateTime]);
      expect(again.etag).not.toBe(first.etag);
      await store().update(environment, "a", { name: "Last" }, again.etag);
    });

    it.each(replacements)("fails for a retry if the new token was replaced by %s", async (_what, replace) => {
      for (const target of ["token", "id"]) {
        const { environment, group } = await withGroup();
        const given = { requestId: "r", graceMs: 60_000 };
        const rotation = target === "token" ? byToken(group.token, given) : byId("a", given);
        await store().rotate(environment, rotation);
        await replace(environment);
        const before = await contents(redis(), environment);
        for (const worker of [0, 1]) await fails(store({ worker }).rotate(environment, rotation), TokenReplaced);
        expect(await contents(redis(), environment)).toEqual(before);
      }
    });

    it("accepts a retry after a change of the default grace period, but rejects a retry that requests another grace period", async () => {
      const { environment, group } = await withGroup();
      const rotation = byToken(group.token, { requestId: "r", graceMs: 60_000, requestedGraceMs: undefined });
      const first = await store().rotate(environment, rotation);
      expect(await store().rotate(environment, { ...rotation, graceMs: 0 })).toEqual(first);
      for (const requestedGraceMs of [0, 60_000]) {
        await fails(store().rotate(environment, { ...rotation, requestedGraceMs }), RequestIdReused);
      }
    });

    it("rejects the same request id with other parameters", async () => {
      const { environment, group } = await withGroup();
      const requestId = "r";
      const first = await store().rotate(environment, byToken(group.token, { requestId }));
      const before = await contents(redis(), environment);
      for (const other of [
        byToken(group.token, { requestId, graceMs: 1 }),
        byToken(first.token, { requestId }),
        byId("a", { requestId }),
        byId("missing", { requestId }),
      ]) {
        await fails(store().rotate(environment, other), RequestIdReused);
      }
      expect(await contents(redis(), environment)).toEqual(before);
    });

    it("rejects the same request id for another group", async () => {
      const { environment } = await withGroup();
      const { group } = await store().getOrCreate(environment, newGroup("b"));
      await store().rotate(environment, byId("a", { requestId: "r" }));
      await fails(store().rotate(environment, byId("b", { requestId: "r" })), RequestIdReused);
      await fails(store().rotate(environment, byToken(group.token, { requestId: "r" })), RequestIdReused);
      expect((await store().resolve(environment, group.token)).providedId).toBe("b");
    });

    it("accepts an old request id for a group that was deleted and created again", async () => {
      const { environment, group } = await withGroup();
      await store().rotate(environment, byId("a", { requestId: "r" }));
      await admin().delete(environment, "a");
      const { group: next } = await store().getOrCreate(environment, newGroup("a"));
      for (const rotation of [byId("a", { requestId: "r" }), byId("a", { requestId: "r" })]) {
        const rotated = await store().rotate(environment, rotation);
        expect(rotated.teamId).toBe(next.teamId);
        expect([group.token, next.token]).not.toContain(rotated.token);
      }
      expect(await store().rotate(environment, byId("a", { requestId: "r" }))).toEqual(
        (await store().getOrCreate(environment, newGroup("a"))).group,
      );
    });

    it("accepts the same request id in several environments", async () => {
      const [one, two] = [await withGroup(), await withGroup()];
      const first = await store().rotate(one.environment, byToken(one.group.token, { requestId: "r" }));
      const second = await store().rotate(two.environment, byToken(two.group.token, { requestId: "r" }));
      expect(second.token).not.toBe(first.token);
    });

    it("stores no request id of a failed call", async () => {
      const { environment, group } = await withGroup();
      await store().rotate(environment, byToken(group.token));
      const before = await contents(redis(), environment);
      for (let tries = 0; tries < 2; tries++) {
        await fails(store().rotate(environment, byId("missing", { requestId: "r1" })), UserGroupNotFound);
        await fails(store().rotate(environment, byToken(group.token, { requestId: "r2" })), TokenNotFound);
      }
      await fails(admin().revokeTokens(environment, "missing", "r3"), UserGroupNotFound);
      // The failed calls have stored nothing. So a retry with the same request id is executed again, and fails again.
      expect(await contents(redis(), environment)).toEqual(before);
    });
  });
}
