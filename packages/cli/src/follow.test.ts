import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { type AuditEvent, AuditEventSchema } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { EXIT, Failure } from "./failures.ts";
import { followEvents } from "./follow.ts";

const event = (id: string, ms: number): AuditEvent => create(AuditEventSchema, { id, createTime: timestampFromMs(ms) });

/** A trail that is read as the service reads it, one event a page, and says from when it was asked. */
function newTrail(isShown: (event: AuditEvent) => boolean = () => true) {
  const events: AuditEvent[] = [];
  const asked: (number | undefined)[] = [];
  const failures: unknown[] = [];
  const newestFirst = () => [...events].sort((a, b) => msOf(b) - msOf(a));
  const msOf = ({ createTime }: AuditEvent) => (createTime ? timestampMs(createTime) : 0);
  return {
    events,
    asked,
    failures,
    newest: async () => {
      if (failures.length > 0) throw failures.shift();
      return newestFirst()[0];
    },
    read: async ({ pageToken, startTime }: { pageToken: string; startTime?: AuditEvent["createTime"] }) => {
      const from = startTime && timestampMs(startTime);
      if (pageToken === "") asked.push(from);
      const found = newestFirst().filter((each) => isShown(each) && msOf(each) >= (from ?? 0));
      const at = Number(pageToken);
      return { items: found.slice(at, at + 1), nextPageToken: at + 1 < found.length ? String(at + 1) : "" };
    },
  };
}

const idsOf = ({ value }: IteratorResult<readonly AuditEvent[], void>) => (value ?? []).map(({ id }) => id);

const away = () => new Failure("the service is away", { exitCode: EXIT.unavailable });

it("gives the last events in order, then each new one once, also one that comes late", async () => {
  const { events, read, newest } = newTrail();
  events.push(event("a", 100_000), event("b", 101_000), event("c", 102_000));
  const controller = new AbortController();
  const following = followEvents({
    read,
    newest,
    shownFirst: 2,
    signal: controller.signal,
    warn: () => {},
    intervalMs: 1,
  });
  const next = async () => idsOf(await following.next());
  expect(await next()).toEqual(["b", "c"]);
  events.push(event("e", 105_000));
  expect(await next()).toEqual(["e"]);
  // Of a node whose clock is behind.
  events.push(event("d", 103_000), event("f", 105_000));
  expect(await next()).toEqual(["d", "f"]);
  controller.abort(new Error("stopped"));
  await expect(next()).rejects.toThrow("stopped");
});

it("does not look again at what is long past, though nothing of the filter has come since", async () => {
  const { events, asked, read, newest } = newTrail(({ id }) => id.startsWith("shown"));
  events.push(event("shown-1", 1000), event("x", 500_000));
  const following = followEvents({
    read,
    newest,
    shownFirst: 10,
    signal: new AbortController().signal,
    warn: () => {},
    intervalMs: 1,
  });
  await following.next();
  events.push(event("shown-2", 600_000));
  expect(idsOf(await following.next())).toEqual(["shown-2"]);
  expect(asked).toEqual([495_000, undefined, 495_000]);
});

it("waits while the service is away, and leaves nothing out; any other failure ends it", async () => {
  const { events, failures, read, newest } = newTrail();
  const said: string[] = [];
  const options = { read, newest, shownFirst: 10, signal: new AbortController().signal, intervalMs: 1, pauseMs: 1 };
  const following = followEvents({ ...options, warn: (text) => void said.push(text) });
  events.push(event("a", 1000));
  await following.next();
  failures.push(away(), away());
  events.push(event("b", 2000));
  expect(idsOf(await following.next())).toEqual(["b"]);
  expect(said).toEqual(["the service is away. Trying again until it is back.", "The service is back."]);
  failures.push(new Failure("the token has ended", { exitCode: EXIT.denied }));
  await expect(following.next()).rejects.toThrow("the token has ended");
  failures.push(away());
  await expect(followEvents({ ...options, warn: () => {} }).next()).rejects.toThrow("the service is away");
});
