import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { HOUR_MS } from "../../../src/domain/durations.ts";
import type { Environment } from "../../../src/domain/environment.ts";
import { UserGroupExpired, UserGroupNotFound } from "../../../src/domain/errors.ts";
import { EXPIRED, type ImportedUserGroup, type Suspension } from "../../../src/domain/user-group.ts";
import { WRITE_GROUP } from "../../../src/store/scripts.ts";
import { BY, testUserGroupAdmin } from "../stores.ts";
import {
  byId,
  byToken,
  type ContractContext,
  contents,
  eventsOf,
  fails,
  heldUpAt,
  imported,
  newGroup,
  RING,
} from "./context.ts";

export function suspensionContract({ store, admin, client, redis, withGroup }: ContractContext): void {
  const events = async (environment: Environment) => (await eventsOf(client(), environment)).length;

  /**
   * Calls nine methods that return the group `a`, on each of two workers. Returns the suspension in each of the 18
   * answers.
   */
  async function suspensionsOf(environment: Environment, token: string): Promise<(Suspension | undefined)[]> {
    const found = [0, 1].flatMap((worker) => {
      const groups = store({ worker });
      const session = async () => {
        const { viewer, generation } = await groups.sessionSubject(environment, byId("a").target);
        const reference = { providedId: "a", teamId: viewer.teamId, generation, viewerId: undefined };
        return [viewer, await groups.resolveSession(environment, reference)];
      };
      const range = { after: "", size: 10, prefix: "a" };
      return [
        groups.resolve(environment, token),
        groups.sessionSubject(environment, byToken(token).target).then(({ viewer }) => viewer),
        session(),
        groups.get(environment, "a"),
        groups.getOrCreate(environment, newGroup("a")).then(({ group }) => group),
        admin({ worker }).lookUp(environment, "a"),
        admin({ worker })
          .list(environment, range)
          .then(({ items }) => items),
        admin({ worker })
          .export(environment, range)
          .then(({ items }) => items),
      ];
    });
    return (await Promise.all(found)).flat().map(({ suspension }) => suspension);
  }

  const given = { reason: "unpaid invoice", message: "Please call us." };

  describe("suspended groups", () => {
    it("a suspended group is reported as suspended by every call until it is resumed, and keeps its values", async () => {
      const { environment, group } = await withGroup();
      const info = await admin().suspend(environment, "a", given);
      const { suspension } = info;
      expect(suspension).toEqual({ ...given, suspendTime: expect.any(Number), until: undefined });
      expect(suspension?.suspendTime).toBeGreaterThanOrEqual(group.createTime);
      expect(info.etag).not.toBe(group.etag);
      expect(JSON.stringify(info)).not.toContain(group.token);
      const seen = await suspensionsOf(environment, group.token);
      expect(seen).toHaveLength(18);
      expect(new Set(seen.map((each) => JSON.stringify(each)))).toEqual(new Set([JSON.stringify(suspension)]));
      const resumed = await admin({ worker: 1 }).resume(environment, "a");
      expect(resumed.suspension).toBeUndefined();
      expect(await suspensionsOf(environment, group.token)).toEqual(Array(18).fill(undefined));
      const { etag, updateTime, ...same } = group;
      expect(await store().get(environment, "a")).toMatchObject(same);
      expect(await events(environment)).toBe(3);
    });

    it("a suspended group stays suspended after updates, rotations and revocations, and has a valid token after it is resumed", async () => {
      const { environment } = await withGroup();
      await admin().suspend(environment, "a", given);
      const updated = await store().update(environment, "a", { name: "N" });
      const rotated = await store().rotate(environment, byId("a", { graceMs: HOUR_MS }));
      const again = await store().rotate(environment, byToken(rotated.token, { graceMs: HOUR_MS }));
      const revoked = await admin().revokeTokens(environment, "a", "", BY, HOUR_MS);
      for (const { suspension } of [updated, rotated, again, revoked]) expect(suspension).toMatchObject(given);
      // This token is in its grace period. With this token, `resolve` returns the suspension as well.
      expect((await store().resolve(environment, again.token)).suspension).toMatchObject(given);
      await admin().resume(environment, "a");
      const { token, name } = await store().get(environment, "a");
      expect(name).toBe("N");
      expect((await store().resolve(environment, token)).suspension).toBeUndefined();
    });

    it("a suspended group can be deleted by token or id, and a later group with the same id is not suspended", async () => {
      for (const by of ["token", "id"]) {
        const { environment, group } = await withGroup();
        await admin().suspend(environment, "a", given);
        await admin().delete(environment, by === "id" ? "a" : byToken(group.token).target);
        expect((await store().getOrCreate(environment, newGroup("a"))).group.suspension).toBeUndefined();
      }
    });

    it("a suspended group keeps the time of its suspension when the suspension changes, and ignores an equal suspension", async () => {
      const { environment } = await withGroup();
      const first = await admin().suspend(environment, "a", given);
      const before = await contents(redis(), environment);
      expect(await admin({ worker: 1 }).suspend(environment, "a", given)).toEqual(first);
      expect(await contents(redis(), environment)).toEqual(before);
      const until = Date.now() + HOUR_MS;
      for (const change of [{ ...given, until }, { ...given, reason: "r", until }, { ...given, message: "" }, given]) {
        const { suspension, etag } = await admin().suspend(environment, "a", change);
        expect(suspension).toEqual({ until: undefined, ...change, suspendTime: first.suspension?.suspendTime });
        expect(etag).not.toBe(first.etag);
      }
      expect(await events(environment)).toBe(6);
      await admin().resume(environment, "a");
      const resumed = await contents(redis(), environment);
      expect((await admin().resume(environment, "a")).suspension).toBeUndefined();
      expect(await contents(redis(), environment)).toEqual(resumed);
    });

    it("a suspended group is resumed without a call when the time `until` comes", async () => {
      const { environment, group } = await withGroup();
      const until = Date.now() + 500;
      await admin().suspend(environment, "a", { ...given, until });
      await waitFor("the suspension ends", async () => {
        const before = Date.now();
        const isOver = (await store().resolve(environment, group.token)).suspension === undefined;
        // Redis runs on this machine, so the store and the test use the same clock.
        if (isOver) expect(Date.now()).toBeGreaterThanOrEqual(until);
        else expect(before).toBeLessThan(until + 100);
        return isOver;
      });
      expect(await suspensionsOf(environment, group.token)).toEqual(Array(18).fill(undefined));
      const { suspension } = await admin().suspend(environment, "a", given);
      expect(suspension?.suspendTime).toBeGreaterThanOrEqual(until);
    });
  });

  it("suspend and resume fail for an unknown group", async () => {
    const { environment } = await withGroup();
    await fails(admin().suspend(environment, "b", given), UserGroupNotFound);
    await fails(admin().resume(environment, "b"), UserGroupNotFound);
  });

  describe("groups with an expiry time", () => {
    const expired = (expireTime: number) => ({
      ...{ reason: EXPIRED, message: "", suspendTime: expireTime, until: undefined },
    });

    it("a group is suspended from its expiry time on, until the expiry time is changed or removed", async () => {
      const { environment, group } = await withGroup();
      const later = Date.now() + HOUR_MS;
      for (const expireTime of [later, later + 1, 253_402_300_799_999]) {
        const updated = await store().update(environment, "a", { expireTime });
        expect([updated.expireTime, updated.suspension]).toEqual([expireTime, undefined]);
        expect(await suspensionsOf(environment, group.token)).toEqual(Array(18).fill(undefined));
      }
      for (const expireTime of [Date.now(), 0, 1, -1, -62_135_596_800_000]) {
        const updated = await store().update(environment, "a", { expireTime });
        expect([updated.expireTime, updated.suspension]).toEqual([expireTime, expired(expireTime)]);
        expect(await suspensionsOf(environment, group.token)).toEqual(Array(18).fill(expired(expireTime)));
        await fails(admin().resume(environment, "a"), UserGroupExpired);
      }
      const cleared = await store().update(environment, "a", { expireTime: null });
      expect([cleared.expireTime, cleared.suspension, cleared.token]).toEqual([undefined, undefined, group.token]);
      expect(await suspensionsOf(environment, group.token)).toEqual(Array(18).fill(undefined));
    });

    it("a group expires at its expiry time without a call", async () => {
      const { environment } = await withGroup();
      const expireTime = Date.now() + 400;
      const { group } = await store().getOrCreate(environment, newGroup("b", { expireTime }));
      expect([group.expireTime, group.suspension]).toEqual([expireTime, undefined]);
      await waitFor("the group expires", async () => {
        const { suspension } = await store().resolve(environment, group.token);
        if (suspension) expect(Date.now()).toBeGreaterThanOrEqual(expireTime);
        return suspension !== undefined;
      });
      expect((await store().get(environment, "b")).suspension).toEqual(expired(expireTime));
    });

    it("a group can be created with an expiry time in the past, and is then suspended immediately", async () => {
      const { environment } = await withGroup();
      const { group, created } = await store().getOrCreate(environment, newGroup("b", { expireTime: 1 }));
      expect([created, group.suspension]).toEqual([true, expired(1)]);
    });

    it("a group shows a suspension instead of its expiry, and cannot be resumed while it is expired", async () => {
      const { environment, group } = await withGroup();
      await admin().suspend(environment, "a", given);
      await store().update(environment, "a", { expireTime: 1 });
      expect((await store().resolve(environment, group.token)).suspension).toMatchObject(given);
      const before = await contents(redis(), environment);
      await fails(admin().resume(environment, "a"), UserGroupExpired);
      expect(await contents(redis(), environment)).toEqual(before);
      await store().update(environment, "a", { expireTime: null });
      expect((await admin().resume(environment, "a")).suspension).toBeUndefined();
    });
  });

  describe("an import", () => {
    const importOne = async (environment: Environment, group: ImportedUserGroup) => {
      const [outcome] = await admin().import(environment, [group], "upsert");
      return outcome?.outcome === "failed" ? outcome.error : outcome;
    };

    it("changes the values of a suspended group, but neither its suspension nor its expiry time", async () => {
      const { environment, group } = await withGroup();
      const until = Date.now() + HOUR_MS;
      await admin().suspend(environment, "a", { ...given, until });
      const other: Suspension = { reason: "o", message: "o", suspendTime: 1, until: Date.now() + 1 };
      for (const [values, changedFields] of [
        [{}, []],
        [{ name: "N" }, ["name"]],
        [{ name: "N", suspension: other }, []],
        [{ name: "N", expireTime: Date.now() + HOUR_MS }, []],
      ] as const) {
        const { token } = group;
        const outcome = await importOne(environment, { ...newGroup("a"), ...values, token });
        expect(outcome).toEqual({ outcome: "suspended", changedFields });
        const { suspension, expireTime } = await store().get(environment, "a");
        expect([suspension, expireTime]).toEqual([expect.objectContaining({ ...given, until }), undefined]);
      }
    });

    it("does not resume a group that has expired, or that expires during the import", async () => {
      const { environment } = await withGroup();
      await store().update(environment, "a", { expireTime: 1 });
      const row = { ...newGroup("a", { name: "N", expireTime: Date.now() + HOUR_MS }), token: undefined };
      expect(await importOne(environment, row)).toEqual({ outcome: "suspended", changedFields: ["name"] });
      expect((await store().get(environment, "a")).expireTime).toBe(1);

      const expireTime = Date.now() + 300;
      await store().update(environment, "a", { expireTime, name: "a" });
      const held = heldUpAt(client(), WRITE_GROUP.name, () =>
        waitFor("the group expires", async () => (await store().get(environment, "a")).suspension !== undefined),
      );
      const [outcome] = await testUserGroupAdmin(held, RING).import(environment, [row], "upsert");
      expect(outcome).toEqual({ outcome: "suspended", changedFields: ["name"] });
      expect((await store().get(environment, "a")).expireTime).toBe(expireTime);
    });

    it("reports `unchanged` for an equal suspension or expiry time, and `suspended` for another value", async () => {
      const { environment } = await withGroup();
      const { suspension } = await admin().suspend(environment, "a", given);
      const row = { ...newGroup("a"), token: undefined };
      const unchanged = { outcome: "unchanged", changedFields: [] };
      expect(await importOne(environment, { ...row, suspension })).toEqual(unchanged);
      const suspended = { outcome: "suspended", changedFields: [] };
      for (const other of [undefined, { ...(suspension as Suspension), until: Date.now() + HOUR_MS }])
        expect(await importOne(environment, { ...row, suspension: other })).toEqual(suspended);
      await admin().resume(environment, "a");
      await store().update(environment, "a", { expireTime: 1 });
      expect(await importOne(environment, { ...row, expireTime: 1 })).toEqual(unchanged);
      expect(await importOne(environment, row)).toEqual(suspended);
    });

    it("sets the expiry time and the suspension of a group that is not suspended", async () => {
      const { environment } = await withGroup();
      const [later, past] = [Date.now() + HOUR_MS, Date.now() - HOUR_MS];
      const suspension = { ...given, suspendTime: past, until: later };
      const created = await importOne(environment, imported("b", { expireTime: later, suspension }));
      expect(created).toMatchObject({ outcome: "created", changedFields: expect.arrayContaining(["suspension"]) });
      const updated = await importOne(environment, {
        ...newGroup("a", { expireTime: later }),
        token: undefined,
        suspension,
      });
      expect(updated).toEqual({ outcome: "updated", changedFields: ["expire_time", "suspension"] });
      for (const id of ["a", "b"]) {
        const group = await store().get(environment, id);
        expect([group.expireTime, group.suspension]).toEqual([later, suspension]);
      }
      // If the suspension of an imported group is already over, the group is not suspended. If the expiry time of an
      // imported group is in the past, the group is suspended.
      const over = imported("c", { suspension: { ...suspension, until: past } });
      expect(await importOne(environment, over)).toMatchObject({ outcome: "created" });
      expect((await store().get(environment, "c")).suspension).toBeUndefined();
      expect(await importOne(environment, imported("d", { expireTime: past }))).toMatchObject({ outcome: "created" });
      expect((await store().get(environment, "d")).suspension?.reason).toBe(EXPIRED);
    });
  });
}
