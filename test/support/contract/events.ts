import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import type { ChangeBy } from "../../../src/domain/audit.ts";
import { DAY_MS } from "../../../src/domain/durations.ts";
import type { Environment } from "../../../src/domain/environment.ts";
import { EnvironmentNotFound, EventCursorExpired } from "../../../src/domain/errors.ts";
import {
  type EventPosition,
  type EventStart,
  type FeedEvent,
  formatCursor,
  parseCursor,
  positionAfter,
} from "../../../src/domain/events.ts";
import { Audit } from "../../../src/store/audit.ts";
import { redisAuditTrail } from "../../../src/store/audit-trail.ts";
import { setLastVersion } from "../stored-state.ts";
import { AUDIT, BY, testApiTokens, testEnvironments } from "../stores.ts";
import { byId, type ContractContext, eventsOf, fails, newEnvironment, newGroup, newName } from "./context.ts";

const BEGINNING = { cursor: 0, cursorTime: undefined };

const NOW = { cursor: Number.POSITIVE_INFINITY, cursorTime: undefined };

export function eventsContract({ store, admin, client, redis, withGroup }: ContractContext): void {
  const read = (environment: Environment, start: EventStart, size = 1000, audit = AUDIT) =>
    redisAuditTrail(client(1), audit).readEvents(environment, start, size);
  /**
   * Reads all events after a position, in pages of at most `size` events. Returns the events, and the position after
   * the last event.
   */
  const readAll = async (environment: Environment, start: EventStart, size: number, audit = AUDIT) => {
    const found: FeedEvent[] = [];
    for (let next = start; ; ) {
      const page = await read(environment, next, size, audit);
      expect(page.events.length).toBeLessThanOrEqual(size);
      found.push(...page.events);
      next = page.next;
      if (!page.hasMore) return { found, next: page.next };
    }
  };
  const end = async (environment: Environment): Promise<EventPosition> => (await read(environment, NOW)).next;
  const typesOf = (events: readonly FeedEvent[]) => events.map(({ type }) => type);
  const by = (method: string): ChangeBy => ({ ...BY, method });
  const update = (environment: Environment, name: string, audit = AUDIT) =>
    store({ audit }).update(environment, "a", { name }, "", by("UpdateUserGroup"));

  describe("the feed of events", () => {
    it("contains the events of the audit trail in order, with ids, types and names of changed fields", async () => {
      const environment = await testEnvironments(client()).create(
        { name: newName(), tag: undefined },
        by("CreateEnvironment"),
      );
      await store().getOrCreate(environment, newGroup("a"), by("GetUserGroup"));
      await store().update(environment, "a", { name: "secret name" }, "", by("UpdateUserGroup"));
      await admin().import(
        environment,
        [
          { ...newGroup("a", { name: "secret import" }), token: undefined },
          { ...newGroup("b"), token: undefined },
        ],
        "upsert",
        by("ImportUserGroups"),
      );
      const { token } = await store().rotate(environment, byId("a"), by("RotateUserGroupToken"));
      await admin().revokeTokens(environment, "a", "", by("RevokeUserGroupTokens"));
      await admin().endSessions(environment, { providedId: "a", viewerId: undefined }, by("RevokeViewerSessions"));
      const values = { displayName: "a", role: "read", expireTime: undefined } as const;
      const { apiToken } = await testApiTokens(client()).create(environment, values, by("CreateApiToken"));
      await testApiTokens(client()).revoke(environment, apiToken.id, by("RevokeApiToken"));
      await redisAuditTrail(client(), AUDIT).recordExport(
        environment,
        { providedIdPrefix: "", count: 1 },
        by("ExportUserGroups"),
      );
      await admin().suspend(environment, "a", {}, by("SuspendUserGroup"));
      await admin().resume(environment, "a", by("ResumeUserGroup"));
      await admin().delete(environment, "a", "", by("DeleteUserGroup"));
      const { found } = await readAll(environment, BEGINNING, 1000);
      const seen = found.map(({ type, userGroupId, apiTokenId }) => [type, userGroupId ?? apiTokenId]);
      const imported = seen.splice(3, 2);
      expect(imported).toHaveLength(2);
      expect(imported).toEqual(
        expect.arrayContaining([
          ["user_group.updated", "a"],
          ["user_group.created", "b"],
        ]),
      );
      expect(seen).toEqual([
        ["environment.created", undefined],
        ["user_group.created", "a"],
        ["user_group.updated", "a"],
        ["user_group.rotated", "a"],
        ["user_group.revoked", "a"],
        ["viewer_sessions.revoked", "a"],
        ["api_token.created", apiToken.id],
        ["api_token.revoked", apiToken.id],
        ["user_groups.exported", undefined],
        ["user_group.suspended", "a"],
        ["user_group.resumed", "a"],
        ["user_group.deleted", "a"],
      ]);
      expect(found[2]).toEqual({
        ...by("UpdateUserGroup"),
        id: expect.stringMatching(/^\d{16}$/),
        type: "user_group.updated",
        time: expect.closeTo(Date.now(), -5),
        userGroupId: "a",
        changedFields: ["name"],
      });
      for (const text of ["secret", token]) expect(JSON.stringify(found)).not.toContain(text);
      const ids = found.map(({ id }) => Number(id));
      expect(ids).toEqual([...new Set(ids)].sort((one, other) => one - other));
      const listed = await eventsOf(client(), environment);
      expect(listed.map(({ id }) => id).reverse()).toEqual(found.map(({ id }) => id));
      for (const size of [1, 2, 3]) expect((await readAll(environment, BEGINNING, size)).found).toEqual(found);
      for (const [i, event] of found.entries()) {
        const rest = await readAll(environment, positionAfter(event), 4);
        expect(rest.found).toEqual(found.slice(i + 1));
      }
    });

    it("the feed continues without gaps from a position at its end", async () => {
      const { environment } = await withGroup();
      let next = await end(environment);
      for (let i = 0; i < 3; i++) {
        const empty = await read(environment, next);
        expect(empty).toMatchObject({ events: [], hasMore: false, next: { cursor: next.cursor } });
        expect(empty.next.cursorTime).toBeGreaterThanOrEqual(next.cursorTime);
        await update(environment, `${i}`);
        const page = await read(environment, empty.next);
        expect(typesOf(page.events)).toEqual(["user_group.updated"]);
        next = page.next;
      }
    });

    it("contains every event of changes that are concurrent with reads", async () => {
      const { environment } = await withGroup();
      const start = await end(environment);
      let isDone = false;
      const changes = Promise.all(
        Array.from({ length: 200 }, (_, i) =>
          i % 3 === 0
            ? store({ worker: i }).rotate(environment, byId("a"))
            : store({ worker: i }).update(environment, "a", { name: `${i}` }),
        ),
      ).finally(() => {
        isDone = true;
      });
      const seen: string[] = [];
      for (let next = start, isLast = false; !isLast; ) {
        isLast = isDone;
        const { found, next: after } = await readAll(environment, next, 7);
        seen.push(...found.map(({ id }) => id));
        next = after;
      }
      await changes;
      expect(seen).toHaveLength(200);
      expect(seen).toEqual((await readAll(environment, start, 1000)).found.map(({ id }) => id));
    });

    it("the feed can begin at a given time", async () => {
      const { environment } = await withGroup();
      for (let i = 0; i < 3; i++) await update(environment, `${i}`);
      const { found } = await readAll(environment, BEGINNING, 1000);
      const second = found[1] as FeedEvent;
      const wanted = found.filter(({ id }) => Number(id) >= second.time * 1000);
      expect((await readAll(environment, { cursor: second.time * 1000, cursorTime: undefined }, 2)).found).toEqual(
        wanted,
      );
    });

    it("rejects a cursor whose event Redis has lost, and a cursor in the future", async () => {
      const { environment } = await withGroup();
      const before = await end(environment);
      await setLastVersion(redis(), environment, before.cursor + 10);
      await update(environment, "x");
      const last = await end(environment);
      expect((await read(environment, before)).events).toHaveLength(1);
      await fails(read(environment, { ...before, cursor: before.cursor + 5 }), EventCursorExpired);
      await fails(read(environment, { ...last, cursor: last.cursor + 1 }), EventCursorExpired);
    });

    it("rejects a cursor if the daily limit removed updates after its position, and accepts a later cursor", async () => {
      const { environment } = await withGroup();
      const start = await end(environment);
      const audit = new Audit(AUDIT.retentionMs, { maxUpdates: 200 });
      await store().rotate(environment, byId("a"));
      const rotated = await end(environment);
      for (let i = 0; i < 7; i++)
        await Promise.all(Array.from({ length: 64 }, (_, j) => update(environment, `${i} ${j}`, audit)));
      await fails(read(environment, start), EventCursorExpired);
      await fails(read(environment, rotated), EventCursorExpired);
      const { found } = await readAll(environment, BEGINNING, 100);
      expect(found.length).toBeGreaterThanOrEqual(200);
      expect(found.length).toBeLessThan(448);
      const first = positionAfter(found[0] as FeedEvent);
      expect((await readAll(environment, first, 100)).found).toEqual(found.slice(1));
    });

    it("rejects a cursor older than the retention period, but accepts a newer cursor with the same position", async () => {
      const { environment } = await withGroup();
      const audit = new Audit(2000);
      const first = await end(environment);
      const cursor = { ...first, cursorTime: first.cursor / 1000 };
      expect((await read(environment, cursor, 10, audit)).events).toEqual([]);
      await waitFor(
        "the event is too old",
        async () => (await read(environment, BEGINNING, 10, audit)).events.length === 0,
      );
      // No event was written after the position of the cursor. So the reader has missed no event, although the cursor
      // is older than the retention period.
      const quiet = (await read(environment, cursor, 10, audit)).next;
      expect(quiet.cursor).toBe(first.cursor);
      await update(environment, "x", audit);
      expect((await read(environment, quiet, 10, audit)).events).toHaveLength(1);
      await fails(read(environment, cursor, 10, audit), EventCursorExpired);
    });

    it("continues after midnight, after years without events, and after the clock of Redis was set back", async () => {
      const { environment } = await withGroup();
      const start = await end(environment);
      const ids: number[] = [];
      // Sets the version of the last change to two microseconds before a midnight. So the first of the three updates is
      // before midnight, and the other two are on the next day.
      for (const days of [1, 2, 5, 1500, 3000]) {
        await store().rotate(environment, byId("a"));
        const midnight = (Math.floor(Date.now() / DAY_MS) + days) * DAY_MS * 1000;
        await setLastVersion(redis(), environment, midnight - 2);
        for (let i = 0; i < 3; i++) {
          await update(environment, `${days} ${i}`);
          ids.push(midnight - 1 + i);
        }
      }
      for (const size of [1, 2, 100]) {
        const { found } = await readAll(environment, start, size);
        expect(found).toHaveLength(20);
        expect(found.map(({ id }) => Number(id)).filter((id) => ids.includes(id))).toEqual(ids);
      }
    });

    it("the feed cannot be read after the environment was deleted", async () => {
      const environments = testEnvironments(client());
      const environment = await environments.create({ name: newName(), tag: undefined });
      const last = await end(environment);
      await environments.delete(environment, true);
      await fails(read(environment, last), EnvironmentNotFound);
      await fails(read({ ...(await newEnvironment()), number: 2 ** 20 - 77 }, BEGINNING), EnvironmentNotFound);
    });
  });

  it("parseCursor accepts only texts that formatCursor returns", () => {
    const position = { number: 7, cursor: 1_700_000_000_000_000, cursorTime: 1_700_000_000_000 };
    const cursor = formatCursor(position);
    expect(parseCursor(cursor)).toEqual(position);
    const encoded = (text: string) => Buffer.from(text).toString("base64url");
    for (const wrong of [
      "",
      "x",
      `${cursor}=`,
      ` ${cursor}`,
      encoded("7.1"),
      encoded("7.01.5"),
      encoded("-7.1.5"),
      encoded("7.1.1e3"),
    ])
      expect(parseCursor(wrong)).toBeUndefined();
  });
}
