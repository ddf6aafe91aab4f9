import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { type AuditEvent, AuditEventSchema } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { EXIT, Failure } from "./failures.ts";
import { followEvents } from "./follow.ts";

const event = (id: string, ms: number): AuditEvent => create(AuditEventSchema, { id, createTime: timestampFromMs(ms) });
const msOf = ({ createTime }: AuditEvent) => (createTime ? timestampMs(createTime) : 0);
const idsOf = ({ value }: IteratorResult<readonly AuditEvent[], void>) => (value ?? []).map(({ id }) => id);
const unavailable = () => new Failure("the service is away", { exitCode: EXIT.unavailable });

/** Follows a trail whose reads fail with the given failures. */
function newTrail() {
  const events: AuditEvent[] = [];
  const failures: unknown[] = [];
  const warnings: string[] = [];
  const controller = new AbortController();
  const following = followEvents({
    list: async () => {
      if (failures.length > 0) throw failures.shift();
      return { auditEvents: [...events].sort((a, b) => msOf(b) - msOf(a)), nextPageToken: "" };
    },
    filter: {},
    shownFirst: 10,
    signal: controller.signal,
    warn: (text) => void warnings.push(text),
    intervalMs: 1,
  });
  return { events, failures, warnings, controller, next: async () => idsOf(await following.next()) };
}

it("yields the last events, the oldest first, then new events until the signal aborts", async () => {
  const { events, controller, next } = newTrail();
  events.push(event("a", 100_000), event("b", 101_000));
  expect(await next()).toEqual(["a", "b"]);
  events.push(event("c", 105_000));
  expect(await next()).toEqual(["c"]);
  controller.abort(new Error("stopped"));
  await expect(next()).rejects.toThrow("stopped");
});

it("retries while the service is unavailable, and misses no event", async () => {
  const { events, failures, warnings, next } = newTrail();
  events.push(event("a", 1000));
  await next();
  failures.push(unavailable(), unavailable());
  events.push(event("b", 2000));
  expect(await next()).toEqual(["b"]);
  expect(warnings).toHaveLength(2);
});

it.each([
  ["the first read fails", 0, unavailable()],
  ["a later read is denied", 1, new Failure("the token was revoked", { exitCode: EXIT.denied })],
])("throws if %s", async (_, reads, failure) => {
  const { failures, next } = newTrail();
  for (let i = 0; i < reads; i++) await next();
  failures.push(failure);
  await expect(next()).rejects.toBe(failure);
});
