import { describe, expect, it } from "vitest";
import type { Environment } from "../../../src/domain/environment.ts";
import { RecordUnreadable, UserGroupNotFound } from "../../../src/domain/errors.ts";
import { apiTokenDigest } from "../../../src/domain/token.ts";
import { Audit } from "../../../src/store/audit.ts";
import { redisAuditTrail } from "../../../src/store/audit-trail.ts";
import { byToken, type ContractContext, fails, newGroup } from "../contract/context.ts";
import { setLastVersion, todayKey } from "../stored-state.ts";
import { AUDIT, BY, testApiTokens } from "../stores.ts";

const FIRST = { after: "", size: 1000 };

export function eventLayout({ store, client, redis, withGroup, isShared }: ContractContext): void {
  it("Redis deletes events at most 25 hours after their retention period", async () => {
    const { environment } = await withGroup();
    await store({ audit: new Audit(1000) }).update(environment, "a", { name: "x" });
    const left = await redis().pttl(todayKey(environment, "updates"));
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(25 * 3_600_000 + 1000);
  });

  // These tests write to streams. The embedded store keeps events in lists.
  describe.skipIf(!isShared)("events in Redis", () => {
    const trail = () => redisAuditTrail(client(), AUDIT);
    const list = async (environment: Environment) =>
      (await trail().list([{ ...environment, createTime: 0, deleteTime: undefined }], {}, FIRST)).items;

    it("an unreadable event causes an error in the audit trail", async () => {
      const whole = ["a", "x", "n", "x", "r", "root", "m", "x", "i", "x", "f", "x", "q", "x", "p", "x"];
      const withEvent = async (fields: readonly string[]) => {
        const { environment } = await withGroup();
        const ahead = (Date.now() + 60_000) * 1000;
        await setLastVersion(redis(), environment, ahead);
        await redis().xadd(todayKey(environment), `${ahead}-0`, ...fields);
        return environment;
      };
      for (const fields of [["a", "x"], whole.with(5, "king"), whole.slice(0, -2)])
        await fails(list(await withEvent(fields)), RecordUnreadable);
      expect(await list(await withEvent(whole))).toHaveLength(2);
    });

    it("an unreadable event causes an error in the feed", async () => {
      const { environment } = await withGroup();
      const ahead = (Date.now() + 60_000) * 1000;
      const { next } = await trail().readEvents(
        environment,
        { cursor: Number.POSITIVE_INFINITY, cursorTime: undefined },
        1,
      );
      await setLastVersion(redis(), environment, ahead);
      await redis().xadd(todayKey(environment), `${ahead}-0`, "a", "x");
      await fails(trail().readEvents(environment, next, 9), RecordUnreadable);
    });

    it("no change is made if its event cannot be written", async () => {
      const { environment, group } = await withGroup();
      const tokens = testApiTokens(client());
      const values = { displayName: "x", role: "read", expireTime: undefined } as const;
      const { apiToken, token } = await tokens.create(environment, values);
      for (const stream of ["events", "updates"] as const) {
        await redis().del(todayKey(environment, stream));
        await redis().set(todayKey(environment, stream), "x");
      }
      await fails(store().update(environment, "a", { name: "x" }), RecordUnreadable);
      await fails(store().rotate(environment, byToken(group.token)), RecordUnreadable);
      await fails(store().getOrCreate(environment, newGroup("b")), RecordUnreadable);
      await fails(tokens.create(environment, values), RecordUnreadable);
      await fails(tokens.update(environment, apiToken.id, { displayName: "y" }), RecordUnreadable);
      await fails(tokens.rotate(environment, apiToken.id), RecordUnreadable);
      await fails(trail().recordExport(environment, { providedIdPrefix: "", count: 1 }, BY), RecordUnreadable);
      expect((await store().getOrCreate(environment, newGroup("a"))).group).toEqual(group);
      await fails(store().get(environment, "b"), UserGroupNotFound);
      expect((await tokens.list(environment, {}, FIRST)).items).toEqual([apiToken]);
      await fails(tokens.revoke(environment, apiToken.id), RecordUnreadable);
      expect(await tokens.find({ number: environment.number, digest: apiTokenDigest(token) })).toBeDefined();
    });
  });
}
