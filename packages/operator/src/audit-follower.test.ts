import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { type AuditEvent, AuditEventSchema } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { AuditFollower, type ListAuditEvents } from "./audit-follower.ts";

const MAX = 10;
const { signal } = new AbortController();
const event = (id: string, ms: number): AuditEvent =>
  create(AuditEventSchema, { id, createTime: timestampFromMs(ms), method: id.split("-")[0] ?? "" });
const msOf = ({ createTime }: AuditEvent) => (createTime ? timestampMs(createTime) : 0);

/** A trail with pages of at most two events. It records the start times of the requests. */
function newTrail({ method = "", shownFirst = 2 } = {}) {
  const events: AuditEvent[] = [];
  const startTimes: number[] = [];
  const failures: unknown[] = [];
  const list: ListAuditEvents = async ({ method = "", startTime, pageSize = 0, pageToken = "" }) => {
    if (startTime && failures.length > 0) throw failures.shift();
    if (startTime && pageToken === "") startTimes.push(timestampMs(startTime));
    const found = events
      .filter(
        (each) => (method === "" || each.method === method) && msOf(each) >= (startTime ? timestampMs(startTime) : 0),
      )
      .sort((a, b) => msOf(b) - msOf(a));
    const [start, end] = [Number(pageToken), Number(pageToken) + Math.min(2, pageSize)];
    return { auditEvents: found.slice(start, end), nextPageToken: end < found.length ? String(end) : "" };
  };
  const follower = new AuditFollower({ list, filter: { method }, shownFirst, maxEvents: MAX });
  const next = async () => (await follower.next(signal)).map(({ id }) => id);
  return { events, startTimes, failures, next };
}

it("returns the last events, then each new event once, also a late one", async () => {
  const { events, next } = newTrail();
  events.push(event("a", 110_000), event("b", 111_000), event("c", 112_000));
  expect(await next()).toEqual(["c", "b"]);
  expect(await next()).toEqual([]);
  events.push(event("e", 115_000));
  expect(await next()).toEqual(["e"]);
  // From a node whose clock is behind.
  events.push(event("d", 113_000), event("f", 115_000));
  expect(await next()).toEqual(["f", "d"]);
  expect(await next()).toEqual([]);
});

it("does not read old events again when no new event matches the filter", async () => {
  const { events, startTimes, next } = newTrail({ method: "shown" });
  events.push(event("shown-1", 1000), event("x", 500_000));
  expect(await next()).toEqual(["shown-1"]);
  events.push(event("y", 600_000));
  expect(await next()).toEqual([]);
  events.push(event("shown-2", 600_001));
  expect(await next()).toEqual(["shown-2"]);
  expect(startTimes).toEqual([495_000, 495_000, 595_000]);
});

it("returns the missing events after a failed read, and starts with an empty trail", async () => {
  const { events, failures, next } = newTrail();
  expect(await next()).toEqual([]);
  events.push(event("a", 1000));
  failures.push(new Error("away"));
  await expect(next()).rejects.toThrow("away");
  events.push(event("b", 60_000));
  expect(await next()).toEqual(["b", "a"]);
});

it("drops the oldest events if one read finds too many", async () => {
  const { events, startTimes, next } = newTrail();
  events.push(event("first", 1000));
  expect(await next()).toEqual(["first"]);
  for (let i = 0; i < 2 * MAX; i++) events.push(event(`e${i}`, 2000 + i));
  const found = await next();
  expect([found.length, found[0], found.at(-1)]).toEqual([MAX, `e${2 * MAX - 1}`, `e${MAX}`]);
  events.push(event("last", 2000 + 2 * MAX));
  expect(await next()).toEqual(["last"]);
  expect(startTimes.at(-1)).toBe(2000 + MAX);
});
