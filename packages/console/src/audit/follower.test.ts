import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { type AuditEvent, AuditEventSchema } from "../../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { AuditFollower, MAX_READ } from "./follower.ts";

const { signal } = new AbortController();
const event = (id: string, ms: number): AuditEvent => create(AuditEventSchema, { id, createTime: timestampFromMs(ms) });

/** A trail, and from when on it was asked. */
function newTrail(isShown: (event: AuditEvent) => boolean = () => true) {
  const events: AuditEvent[] = [];
  const asked: number[] = [];
  const failures: unknown[] = [];
  const msOf = ({ createTime }: AuditEvent) => (createTime ? timestampMs(createTime) : 0);
  const newestFirst = () => [...events].sort((a, b) => msOf(b) - msOf(a));
  const follower = new AuditFollower({
    newest: async () => newestFirst()[0],
    last: async () => newestFirst().filter(isShown).slice(0, 2),
    since: async (startTime) => {
      if (failures.length > 0) throw failures.shift();
      asked.push(timestampMs(startTime));
      const since = newestFirst().filter((each) => isShown(each) && msOf(each) >= timestampMs(startTime));
      return since.slice(0, MAX_READ);
    },
  });
  const next = async () => (await follower.next(signal)).map(({ id }) => id);
  return { events, asked, failures, next };
}

it("gives the last events, then each new one once, also one that comes late", async () => {
  const { events, next } = newTrail();
  events.push(event("a", 100_000), event("b", 106_000), event("c", 112_000));
  expect(await next()).toEqual(["c", "b"]);
  expect(await next()).toEqual([]);
  events.push(event("e", 115_000));
  expect(await next()).toEqual(["e"]);
  // Of a node whose clock is behind.
  events.push(event("d", 113_000), event("f", 115_000));
  expect(await next()).toEqual(["f", "d"]);
  expect(await next()).toEqual([]);
});

it("does not look again at what is long past, though nothing of the filter has come since", async () => {
  const { events, asked, next } = newTrail(({ id }) => id.startsWith("shown"));
  events.push(event("shown-1", 1000), event("x", 500_000));
  expect(await next()).toEqual(["shown-1"]);
  events.push(event("y", 600_000));
  expect(await next()).toEqual([]);
  events.push(event("shown-2", 600_001));
  expect(await next()).toEqual(["shown-2"]);
  expect(asked).toEqual([495_000, 495_000, 595_000]);
});

it("leaves nothing out where a read failed, and begins with an empty trail", async () => {
  const { events, failures, next } = newTrail();
  expect(await next()).toEqual([]);
  events.push(event("a", 1000));
  failures.push(new Error("away"));
  await expect(next()).rejects.toThrow("away");
  events.push(event("b", 60_000));
  expect(await next()).toEqual(["b", "a"]);
});

it("leaves out the oldest for good where there are more at once than are kept", async () => {
  const { events, asked, next } = newTrail();
  events.push(event("first", 1000));
  expect(await next()).toEqual(["first"]);
  for (let i = 0; i < 2 * MAX_READ; i++) events.push(event(`e${i}`, 2000 + i));
  const found = await next();
  expect([found.length, found[0], found.at(-1)]).toEqual([MAX_READ, `e${2 * MAX_READ - 1}`, `e${MAX_READ}`]);
  events.push(event("last", 2000 + 2 * MAX_READ));
  expect(await next()).toEqual(["last"]);
  expect(asked.at(-1)).toBe(2000 + MAX_READ);
});
