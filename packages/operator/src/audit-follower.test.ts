import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { type AuditEvent, AuditEventSchema } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { auditFollower, type ListAuditEvents } from "./audit-follower.ts";

const MAX = 10;
const { signal } = new AbortController();

/** Creates an audit trail and its follower. A page has at most two events. The id of an event is its time in ms. */
function newTrail({ method = "" } = {}) {
  const events: AuditEvent[] = [];
  const failures: unknown[] = [];
  /**
   * The `startTime` of each request for a first page, in milliseconds. Omits requests with a page size of 1, because
   * these requests only find the newest event.
   */
  const startTimes: unknown[] = [];
  const list: ListAuditEvents = async ({ method = "", startTime, pageSize = 0, pageToken = "" }) => {
    if (pageSize > 1) {
      if (failures.length > 0) throw failures.shift();
      if (pageToken === "") startTimes.push(startTime && timestampMs(startTime));
    }
    const from = startTime ? timestampMs(startTime) : 0;
    const found = events.filter((each) => (method === "" || each.method === method) && Number(each.id) >= from);
    const [start, end] = [Number(pageToken), Number(pageToken) + Math.min(2, pageSize)];
    const auditEvents = found.toReversed().slice(start, end);
    return { auditEvents, nextPageToken: end < found.length ? String(end) : "" };
  };
  const follow = auditFollower({ list, filter: { method }, shownFirst: 2, maxEvents: MAX });
  const next = async () => (await follow(signal)).map(({ id }) => Number(id));
  const add = (ms: number, method = "") =>
    events.push(create(AuditEventSchema, { id: String(ms), createTime: timestampFromMs(ms), method }));
  return { add, failures, startTimes, next };
}

it("auditFollower returns the latest existing events, then each new event once", async () => {
  const { add, next } = newTrail();
  for (const ms of [8, 9, 10]) add(ms);
  expect(await next()).toEqual([10, 9]);
  expect(await next()).toEqual([]);
  for (const ms of [11, 12, 13]) add(ms);
  expect(await next()).toEqual([13, 12, 11]);
  expect(await next()).toEqual([]);
});

it("auditFollower does not read old events again, even if no new event matches the filter", async () => {
  const { add, startTimes, next } = newTrail({ method: "shown" });
  add(1, "shown");
  add(500);
  expect(await next()).toEqual([1]);
  add(600);
  expect(await next()).toEqual([]);
  add(601, "shown");
  expect(await next()).toEqual([601]);
  expect(startTimes).toEqual([undefined, 500, 600]);
});

it("auditFollower misses no event if the trail was empty at first, or if a read fails", async () => {
  const { add, failures, next } = newTrail();
  expect(await next()).toEqual([]);
  add(1);
  failures.push(new Error("away"));
  await expect(next()).rejects.toThrow("away");
  add(60);
  expect(await next()).toEqual([60, 1]);
});

it("auditFollower drops the oldest new events if there are more than maxEvents", async () => {
  const { add, next } = newTrail();
  add(1);
  expect(await next()).toEqual([1]);
  for (let i = 0; i < 2 * MAX; i++) add(100 + i);
  expect(await next()).toEqual(Array.from({ length: MAX }, (_, i) => 99 + 2 * MAX - i));
  add(200);
  expect(await next()).toEqual([200]);
});
