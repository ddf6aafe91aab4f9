import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it, vi } from "vitest";
import type { AuditFilter, ChangeBy } from "../../../src/domain/audit.ts";
import type { Environment } from "../../../src/domain/environment.ts";
import {
  ApiTokenNotFound,
  AuditEventsExpired,
  EnvironmentExists,
  EnvironmentNotFound,
  EtagMismatch,
  InvalidPageToken,
  RequestIdReused,
  TokenNotFound,
  UserGroupNotFound,
} from "../../../src/domain/errors.ts";
import type { FeedEvent } from "../../../src/domain/events.ts";
import { Audit } from "../../../src/store/audit.ts";
import { redisAuditTrail } from "../../../src/store/audit-trail.ts";
import { setLastVersion } from "../stored-state.ts";
import { AUDIT, BY, testApiTokens, testEnvironments } from "../stores.ts";
import { byId, byToken, type ContractContext, fails, newEnvironment, newGroup, newName, oneWins } from "./context.ts";

const OTHER: ChangeBy = { ...BY, actorId: "other", actorName: "Änother {name}", role: "admin", peer: "2001:db8::1" };

const FIRST = { after: "", size: 1000 };

const EXPORTED = { providedIdPrefix: "", count: 1 };

export function auditContract({ store, client, redis, withGroup }: ContractContext): void {
  const listed = (environment: Environment) => ({ ...environment, createTime: 0, deleteTime: undefined });
  const trail = ({ worker = 0, audit = AUDIT } = {}) => redisAuditTrail(client(worker), audit);
  const list = async (environment: Environment, filter: AuditFilter = {}) =>
    (await trail({ worker: 1 }).list([listed(environment)], filter, FIRST)).items;
  /** Reads the audit trail in pages of at most `size` events, and returns the events of all pages. */
  const pages = async (environment: Environment, size: number, filter: AuditFilter = {}, between = async () => {}) => {
    const found: FeedEvent[] = [];
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page = await trail().list([listed(environment)], filter, { after, size });
      expect(page.items.length).toBeLessThanOrEqual(size);
      found.push(...page.items);
      after = page.next;
      await between();
    }
    return found;
  };
  const idsOf = (events: readonly FeedEvent[]) => events.map(({ id }) => id);

  describe("the audit trail", () => {
    it("has one event per change of a group, with the author, the method and the names of the changed fields", async () => {
      const environment = await newEnvironment({ tag: "Customer" });
      const { group } = await store().getOrCreate(environment, newGroup("a", { properties: { p: 1 } }), BY);
      await store().update(environment, "a", { name: "secret name", properties: null }, "", OTHER);
      await store().update(environment, "a", { mapping: { secret: "mapping" } });
      const { token } = await store().rotate(environment, byToken(group.token), OTHER);
      await store().rotate(environment, byId("a", { graceMs: 60_000 }));
      await store().getOrCreate(environment, newGroup("b"));
      const events = await list(environment);
      const ofA = { ...BY, userGroupId: "a" };
      expect(
        events.map(({ id, time, type, ...rest }) => rest).filter(({ userGroupId }) => userGroupId === "a"),
      ).toEqual([
        { ...ofA, changedFields: ["token"] },
        { ...ofA, ...OTHER, changedFields: ["token"] },
        { ...ofA, changedFields: ["mapping"] },
        { ...ofA, ...OTHER, changedFields: ["name", "properties"] },
        { ...ofA, changedFields: ["name", "mapping", "properties", "token"] },
      ]);
      const ofB = events.filter(({ userGroupId }) => userGroupId === "b");
      expect(ofB).toMatchObject([{ ...BY, changedFields: ["name", "mapping", "token"] }]);
      expect(events).toHaveLength(6);
      for (const { time } of events) expect(Math.abs(time - Date.now())).toBeLessThan(60_000);
      for (const text of ["secret", group.token, token]) expect(JSON.stringify(events)).not.toContain(text);
    });

    it("has no event for a call that changes nothing", async () => {
      const { environment, group } = await withGroup();
      const rotated = await store().rotate(environment, byToken(group.token, { requestId: "r" }));
      const before = await list(environment);
      expect(before).toHaveLength(2);
      for (const worker of [0, 1]) {
        const { getOrCreate, ...own } = { getOrCreate: newGroup("a", { name: "Other" }), worker };
        expect((await store(own).getOrCreate(environment, getOrCreate)).created).toBe(false);
        expect(await store(own).rotate(environment, byToken(group.token, { requestId: "r" }))).toEqual(rotated);
      }
      await store().update(environment, "a", {});
      await store().update(environment, "a", { name: "a", mapping: {}, properties: null }, rotated.etag);
      await fails(store().update(environment, "a", { name: "x" }, group.etag), EtagMismatch);
      await fails(store().update(environment, "none", { name: "x" }), UserGroupNotFound);
      await fails(store().rotate(environment, byToken(group.token)), TokenNotFound);
      await fails(store().rotate(environment, byId("none")), UserGroupNotFound);
      await fails(store().rotate(environment, byId("a", { requestId: "r" })), RequestIdReused);
      await store().resolve(environment, rotated.token);
      await store().get(environment, "a");
      expect(await list(environment)).toEqual(before);
    });

    it("has one event per change, even if changes are concurrent", async () => {
      const environment = await newEnvironment();
      const by = (i: number): ChangeBy => ({ ...BY, requestId: `request ${i}` });
      const made = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          store({ worker: i })
            .getOrCreate(environment, newGroup(`${i % 5}`), by(i))
            .then(({ created }) => created && i),
        ),
      );
      const { group } = await store().getOrCreate(environment, newGroup("0"));
      const updates = Array.from({ length: 100 }, (_, i) =>
        store({ worker: i }).update(environment, `${i % 5}`, { name: `name ${i}` }, "", by(100 + i)),
      );
      const rotations = await Promise.allSettled(
        Array.from({ length: 20 }, (_, i) =>
          store({ worker: i }).rotate(environment, byToken(group.token), by(200 + i)),
        ),
      );
      await Promise.all(updates);
      const won = rotations.flatMap(({ status }, i) => (status === "fulfilled" ? [200 + i] : []));
      expect(won).toHaveLength(1);
      const creations = made.filter((i) => i !== false);
      expect(creations).toHaveLength(5);
      const acknowledged = [...creations, ...updates.map((_, i) => 100 + i), ...won].map((i) => `request ${i}`);
      expect((await list(environment)).map(({ requestId }) => requestId).sort()).toEqual(acknowledged.sort());
    });

    it("has one event per change of an environment and of an API token", async () => {
      const named = { name: newName(), tag: "Testing" as const };
      const environments = testEnvironments(client());
      const tokens = testApiTokens(client());
      const values = { displayName: "a  display name ", role: "read", expireTime: undefined } as const;
      await fails(tokens.create({ ...named, number: 999_999 }, values), EnvironmentNotFound);
      const tries = Array.from({ length: 4 }, (_, i) => testEnvironments(client(i)).create(named, OTHER));
      await oneWins(tries, EnvironmentExists);
      await fails(environments.create(named), EnvironmentExists);
      const environment = await environments.ensureEnvironment(named);
      const { apiToken, token } = await tokens.create(environment, values);
      const revocations = [0, 1, 2].map((worker) =>
        testApiTokens(client(worker)).revoke(environment, apiToken.id, OTHER),
      );
      await oneWins(revocations, ApiTokenNotFound);
      await fails(tokens.revoke(environment, apiToken.id), ApiTokenNotFound);
      await trail().recordExport(environment, { providedIdPrefix: "a b,c ", count: 12 }, BY);
      const events = await list(environment);
      const none = { changedFields: [] };
      const { id, role, displayName } = apiToken;
      const itself = { apiTokenId: id, apiTokenRole: role, apiTokenDisplayName: displayName };
      expect(events.map(({ id, time, type, ...rest }) => rest)).toEqual([
        { ...BY, ...none, exported: { providedIdPrefix: "a b,c ", count: 12 }, changedFields: ["token"] },
        { ...OTHER, ...none, ...itself },
        { ...BY, ...none, ...itself },
        { ...OTHER, ...none },
      ]);
      expect(JSON.stringify(events)).not.toContain(token.slice(4, 20));
    });

    it("lists each event on exactly one page, in order", async () => {
      const environment = await newEnvironment();
      const ids = Array.from({ length: 60 }, (_, i) => `group ${i}`);
      await Promise.all(ids.map((id, worker) => store({ worker }).getOrCreate(environment, newGroup(id))));
      await trail().recordExport(environment, EXPORTED, BY);
      for (const id of ids.slice(0, 20)) await store().update(environment, id, { name: "x" });
      const all = await list(environment);
      expect(all).toHaveLength(81);
      expect(new Set(idsOf(all)).size).toBe(81);
      expect(all.map(({ time }) => time)).toEqual(all.map(({ time }) => time).sort((a, b) => b - a));
      const updated = all.filter(({ changedFields }) => changedFields[0] === "name" && changedFields.length === 1);
      expect(updated.map(({ userGroupId }) => userGroupId)).toEqual(ids.slice(0, 20).reverse());
      for (const size of [1, 4, 33, 81, 82]) expect(idsOf(await pages(environment, size))).toEqual(idsOf(all));
    });

    it("lists each existing event exactly once while new events arrive", async () => {
      const environment = await newEnvironment();
      const ids = Array.from({ length: 15 }, (_, i) => `group ${i}`);
      for (const id of ids) await store().getOrCreate(environment, newGroup(id));
      for (let i = 0; i < 45; i++) await store().update(environment, "group 0", { name: `${i}` });
      const before = idsOf(await list(environment));
      let i = 0;
      const between = async () => {
        i++;
        await Promise.all(ids.map((id) => store({ worker: i }).update(environment, id, { name: `later ${i}` })));
      };
      for (const size of [7, 30]) {
        const known = new Set(before);
        const seen = idsOf(await pages(environment, size, {}, between)).filter((id) => known.has(id));
        expect(seen).toEqual(before);
      }
      expect(i).toBeGreaterThan(6);
    });

    it("the audit trail can be filtered by group, caller, method or time, or by all four together", async () => {
      const environment = await newEnvironment();
      for (const id of ["a", "b"]) await store().getOrCreate(environment, newGroup(id));
      for (let i = 0; i < 20; i++) {
        await store().update(environment, "a", { name: `${i}` }, "", { ...BY, method: "UpdateUserGroup" });
      }
      const [last] = await list(environment);
      await waitFor("the clock advances", () => Date.now() > (last?.time ?? 0) + 1);
      await store().update(environment, "b", { name: "new" }, "", { ...OTHER, method: "UpdateUserGroup" });
      await store().update(environment, "a", { name: "x" }, "", OTHER);
      await trail().recordExport(environment, EXPORTED, OTHER);
      const all = await list(environment);
      expect(all).toHaveLength(25);
      const from = Math.min(...all.filter(({ actorId }) => actorId === "other").map(({ time }) => time));
      const filters: readonly (readonly [AuditFilter, number])[] = [
        [{ userGroupId: "a" }, 22],
        [{ userGroupId: "b" }, 2],
        [{ userGroupId: "none" }, 0],
        [{ actorId: OTHER.actorId }, 3],
        [{ actorId: "none" }, 0],
        [{ method: "UpdateUserGroup" }, 21],
        [{ from }, 3],
        [{ before: from }, 22],
        [{ from, before: from }, 0],
        [{ before: 0 }, 0],
        [{ userGroupId: "a", from }, 1],
        [{ actorId: OTHER.actorId, method: "UpdateUserGroup", from, before: Date.now() + 60_000, userGroupId: "b" }, 1],
      ];
      for (const [filter, count] of filters) {
        const wanted = all.filter(
          (event) =>
            (filter.userGroupId ?? event.userGroupId) === event.userGroupId &&
            (filter.actorId ?? event.actorId) === event.actorId &&
            (filter.method ?? event.method) === event.method &&
            event.time >= (filter.from ?? 0) &&
            event.time < (filter.before ?? Number.POSITIVE_INFINITY),
        );
        expect(wanted, JSON.stringify(filter)).toHaveLength(count);
        expect(await list(environment, filter)).toEqual(wanted);
        for (const size of [1, 5]) expect(await pages(environment, size, filter)).toEqual(wanted);
      }
    });

    it("has an event for each API token that is revoked with its issuer", async () => {
      const environment = await testEnvironments(client()).create({ name: newName(), tag: undefined });
      const tokens = testApiTokens(client());
      const values = { displayName: "x", role: "admin", expireTime: undefined } as const;
      const { apiToken: top } = await tokens.create(environment, { ...values });
      const issued = [];
      for (let i = 0; i < 5; i++)
        issued.push((await tokens.create(environment, { ...values, creator: top.id })).apiToken.id);
      expect(await tokens.revoke(environment, top.id, OTHER, { issued: true })).toBe(6);
      const revoked = await list(environment, { actorId: OTHER.actorId });
      expect(revoked.map(({ apiTokenId }) => apiTokenId).sort()).toEqual([top.id, ...issued].sort());
      expect(new Set(idsOf(revoked)).size).toBe(6);
    });

    it("has one event per change of an API token, even if changes are concurrent", async () => {
      const environment = await testEnvironments(client()).create({ name: newName(), tag: undefined });
      const { apiToken } = await testApiTokens(client()).create(environment, {
        ...{ displayName: "x", role: "admin", expireTime: undefined },
      });
      const by = (i: number): ChangeBy => ({ ...BY, requestId: `request ${i}` });
      const changes = Array.from({ length: 40 }, (_, i) => {
        const tokens = testApiTokens(client(i));
        if (i % 3 === 0) return tokens.rotate(environment, apiToken.id, {}, by(i));
        if (i === 38) return tokens.revoke(environment, apiToken.id, by(i));
        return tokens.update(environment, apiToken.id, { displayName: `name ${i}` }, by(i));
      });
      const settled = await Promise.allSettled(changes);
      const made = settled.flatMap(({ status }, i) => (status === "fulfilled" ? [`request ${i}`] : []));
      const reported = (await list(environment))
        .map(({ requestId }) => requestId)
        .filter((id) => id.startsWith("request "));
      // If the token is revoked immediately after a change, the call that made the change may fail, although the change
      // was made. This can happen to at most one call, because the token is revoked only once.
      for (const request of made) expect(reported).toContain(request);
      expect(new Set(reported).size).toBe(reported.length);
      expect(reported.length - made.length).toBeLessThanOrEqual(1);
    });

    it("rejects an invalid page token", async () => {
      const environment = await newEnvironment();
      const { number } = environment;
      const now = Date.now() * 1000;
      for (const after of ["x", "1", `.${now}`, `-1.${now}`, `${number + 1}.${now}`])
        await fails(trail().list([listed(environment)], {}, { after, size: 1 }), InvalidPageToken);
    });

    it("reads no day after the last event, even if a page token contains a later id", async () => {
      const { environment } = await withGroup();
      const counted = client();
      const run = vi.spyOn(counted, "run");
      const created = { ...environment, createTime: Date.now(), deleteTime: undefined };
      const page = { after: `${environment.number}.${"9".repeat(16)}`, size: 1 };
      await fails(redisAuditTrail(counted, AUDIT).list([created], {}, page), AuditEventsExpired);
      expect(run.mock.calls.length).toBeLessThan(10);
      run.mockRestore();
    });

    it("reports an error if the first event of the requested page has expired", async () => {
      const { environment } = await withGroup();
      const [event] = await list(environment);
      await waitFor("the event has expired", () => Date.now() > (event?.time ?? 0) + 100);
      const late = trail({ audit: new Audit(50) });
      const page = { after: `${environment.number}.${event?.id}`, size: 1 };
      await fails(late.list([listed(environment)], {}, page), AuditEventsExpired);
    });

    it("reports an error if the limit on updates has removed events of the next page", async () => {
      const { environment } = await withGroup();
      const update = (audit: Audit) => (_: unknown, i: number) =>
        store({ audit }).update(environment, "a", { name: `${audit === AUDIT} ${i}` });
      await Promise.all(Array.from({ length: 20 }, update(AUDIT)));
      const { next = "" } = await trail().list([listed(environment)], {}, { after: "", size: 5 });
      const rest = () => trail().list([listed(environment)], {}, { after: next, size: 5 });
      const before = await rest();
      await Promise.all(Array.from({ length: 10 }, update(AUDIT)));
      expect(await rest()).toEqual(before);
      await Promise.all(Array.from({ length: 300 }, update(new Audit(AUDIT.retentionMs, { maxUpdates: 1 }))));
      await fails(rest(), AuditEventsExpired);
    });

    it("drops only the oldest updates beyond the limit, and reports the number of dropped updates", async () => {
      const environment = await newEnvironment();
      const dropped: [name: string, count: number][] = [];
      const onDropped = ({ name }: { readonly name: string }, count: number) => dropped.push([name, count]);
      const audit = new Audit(90 * 86_400_000, { maxUpdates: 200, onDropped });
      const ids = Array.from({ length: 8 }, (_, i) => `group ${i}`);
      const rotate = () => Promise.all(ids.map((id) => store({ audit }).rotate(environment, byId(id))));
      for (const id of ids) await store({ audit }).getOrCreate(environment, newGroup(id));
      for (let i = 0; i < 20; i++) await rotate();
      const update = (i: number) =>
        store({ worker: i, audit }).update(environment, ids[i % 8] as string, { name: `${i}` });
      for (let i = 0; i < 10; i++) await Promise.all(Array.from({ length: 80 }, (_, j) => update(80 * i + j)));
      await store({ audit }).update(environment, "group 0", { mapping: { last: "one" } });
      await rotate();
      const kept = await pages(environment, 1000);
      const updates = kept.filter(({ changedFields }) => changedFields.length === 1 && changedFields[0] !== "token");
      const others = kept.filter((event) => !updates.includes(event));
      expect(others.filter(({ changedFields }) => changedFields.length === 1)).toHaveLength(21 * 8);
      expect(others).toHaveLength(22 * 8);
      expect(updates[0]?.changedFields).toEqual(["mapping"]);
      expect(updates.length).toBeGreaterThanOrEqual(200);
      // The stream can be longer than its limit, because it is trimmed only if its length is a multiple of 64. Redis
      // then removes only whole blocks of entries.
      expect(updates.length).toBeLessThan(200 + 64 + 101);
      expect(dropped.reduce((sum, [, count]) => sum + count, 0)).toBe(801 - updates.length);
      expect(new Set(dropped.map(([name]) => name))).toEqual(new Set([environment.name]));
    });

    it("lists the changes of a group in their order, even within one millisecond", async () => {
      const { environment } = await withGroup();
      const change = (i: number): Promise<unknown> => {
        const by = { ...BY, requestId: `${i}` };
        if (i % 3 === 1) return store().rotate(environment, byId("a"), by);
        return store().update(environment, "a", { name: `${i}` }, "", by);
      };
      // All calls use one connection, so Redis executes them in order.
      await Promise.all(Array.from({ length: 60 }, (_, i) => change(i)));
      const requests = (await list(environment)).map(({ requestId }) => Number(requestId));
      const made = requests.slice(0, 60).reverse();
      expect(made).toEqual(made.map((_, i) => i));
    });

    it("shows events until the end of the retention period", async () => {
      const audit = new Audit(1000);
      const { environment } = await withGroup();
      await store({ audit }).update(environment, "a", { name: "x" });
      const shown = () => trail({ audit }).list([listed(environment)], {}, FIRST);
      expect((await shown()).items.length).toBeGreaterThan(0);
      await waitFor("no event is shown", async () => (await shown()).items.length === 0);
      await store({ audit }).update(environment, "a", { name: "new" });
      expect((await shown()).items).toMatchObject([{ changedFields: ["name"] }]);
    });

    it("lists events in order after the store's clock was set back by days", async () => {
      const { environment } = await withGroup();
      // Simulates a clock that was three days ahead at the last change, and was set back after this change.
      const ahead = Date.now() + 3 * 86_400_000;
      await setLastVersion(redis(), environment, ahead * 1000);
      await store().update(environment, "a", { name: "1" });
      await store().rotate(environment, byId("a"));
      const events = await list(environment);
      expect(events.map(({ changedFields }) => changedFields)).toEqual([["token"], ["name"], expect.anything()]);
      expect(events.map(({ id }) => Number(id)).slice(0, 2)).toEqual([ahead * 1000 + 2, ahead * 1000 + 1]);
      for (const size of [1, 2]) expect(await pages(environment, size)).toEqual(events);
    });
  });
}
