import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import {
  DeliveryOutcomeSchema,
  DeliveryOutcome as Outcome,
  WebhookState as State,
  WebhookSchema,
} from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { outcomeText, redeliveryText, stateText, testText, undeliveredSince } from "./webhooks.ts";

const HOUR_MS = 3_600_000;
const time = (hours: number) => timestampFromMs(hours * HOUR_MS);

/** Creates a webhook that has delivered all events before 02:00. */
function webhook(values: { readonly state: State; readonly failedAttempts?: number }) {
  const failureStartTime = values.failedAttempts ? time(3) : undefined;
  return create(WebhookSchema, { ...values, deliveredTime: time(2), ...(failureStartTime && { failureStartTime }) });
}

it("undeliveredSince returns a time only if the webhook is disabled, has failed attempts, or has an unreadable secret", () => {
  const working = webhook({ state: State.ENABLED });
  expect([stateText(working), undeliveredSince(working)]).toEqual(["enabled", undefined]);
  for (const [each, text] of [
    [webhook({ state: State.ENABLED, failedAttempts: 1 }), "enabled, 1 failed attempt"],
    [webhook({ state: State.DISABLED }), "disabled"],
    [webhook({ state: State.SECRET_UNREADABLE }), "enabled, but its secret cannot be decrypted"],
    [webhook({ state: State.FAILED, failedAttempts: 80 }), "disabled by the service after three days of failures"],
  ] as const)
    expect([stateText(each), undeliveredSince(each)]).toEqual([text, time(2)]);
});

it("testText contains advice for every outcome of a failed test", () => {
  const duration = durationFromMs(12);
  expect(testText({ outcome: Outcome.DELIVERED, httpStatus: 204, duration })).toBe(
    "Delivered the test: the endpoint answered 204 after 12 ms.",
  );
  expect(testText({ outcome: Outcome.STATUS, httpStatus: 500, duration })).toBe(
    "The test was not delivered: the endpoint answered 500. See the log of the endpoint.",
  );
  const failures = DeliveryOutcomeSchema.values.filter(({ number }) => number > Outcome.DELIVERED);
  for (const { number, name } of failures)
    expect(testText({ outcome: number as Outcome, httpStatus: 0 }), name).not.toMatch(
      /delivered: failed|See the documentation/,
    );
  const later = { outcome: 99 as Outcome, httpStatus: 0 };
  expect(testText(later)).toMatch(/failed.*See the documentation of webhooks\.$/);
});

it("outcomeText contains the HTTP status only if the endpoint has responded", () => {
  expect(outcomeText({ outcome: Outcome.DELIVERED, httpStatus: 200 })).toBe("delivered, 200");
  expect(outcomeText({ outcome: Outcome.TIMEOUT, httpStatus: 0 })).toBe("no answer within 10 seconds");
});

it("redeliveryText says 'again' only for events that were delivered before", () => {
  const enabled = webhook({ state: State.ENABLED });
  expect(redeliveryText(enabled, time(2))).toBe("The events since 1970-01-01 02:00:00Z are delivered again, in order.");
  expect(redeliveryText(enabled, time(5))).toBe("The events since 1970-01-01 02:00:00Z are delivered, in order.");
  expect(redeliveryText(webhook({ state: State.SECRET_UNREADABLE }), time(2))).not.toContain("after you enable");
  expect(redeliveryText(webhook({ state: State.DISABLED }), time(2))).toBe(
    "The events since 1970-01-01 02:00:00Z are delivered again, in order, after you enable the webhook.",
  );
});
