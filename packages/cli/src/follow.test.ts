import timers from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type AuditEvent, AuditEventSchema } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { EXIT, Failure } from "./failures.ts";
import { followEvents } from "./follow.ts";

beforeEach(() => {
  const { setTimeout } = timers;
  vi.spyOn(timers, "setTimeout").mockImplementation((_, value, options) => setTimeout(1, value, options));
});

afterEach(() => void vi.restoreAllMocks());

const event = (id: string): AuditEvent => create(AuditEventSchema, { id });
const idsOf = ({ value }: IteratorResult<readonly AuditEvent[], void>) => (value ?? []).map(({ id }) => id);
const unavailable = () => new Failure("the service is unavailable", { exitCode: EXIT.unavailable });

/** Follows an audit trail. As long as `failures` is not empty, each read removes and throws the first failure. */
function newTrail() {
  const events: AuditEvent[] = [];
  const failures: unknown[] = [];
  const warnings: string[] = [];
  const controller = new AbortController();
  const following = followEvents({
    list: async () => {
      if (failures.length > 0) throw failures.shift();
      return { auditEvents: events.toReversed(), nextPageToken: "" };
    },
    filter: {},
    shownFirst: 10,
    signal: controller.signal,
    warn: (text) => void warnings.push(text),
  });
  return { events, failures, warnings, controller, next: async () => idsOf(await following.next()) };
}

it("followEvents yields the last events, the oldest first, then new events until the signal aborts", async () => {
  const { events, controller, next } = newTrail();
  events.push(event("1"), event("2"));
  expect(await next()).toEqual(["1", "2"]);
  events.push(event("3"));
  expect(await next()).toEqual(["3"]);
  controller.abort(new Error("stopped"));
  await expect(next()).rejects.toThrow(expect.objectContaining({ name: "AbortError" }));
});

it("followEvents retries while the service is unavailable, and misses no event", async () => {
  const { events, failures, warnings, next } = newTrail();
  events.push(event("1"));
  await next();
  failures.push(unavailable(), unavailable());
  events.push(event("2"));
  expect(await next()).toEqual(["2"]);
  expect(warnings).toHaveLength(2);
});

it.each([
  ["the first read fails", 0, unavailable()],
  ["a later read is denied", 1, new Failure("the token was revoked", { exitCode: EXIT.denied })],
])("followEvents throws if %s", async (_, reads, failure) => {
  const { failures, next } = newTrail();
  for (let i = 0; i < reads; i++) await next();
  failures.push(failure);
  await expect(next()).rejects.toBe(failure);
});
