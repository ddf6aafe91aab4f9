import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  DeliveryOutcome as Outcome,
  WebhookState as State,
  type Webhook,
  type WebhookDelivery,
} from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { timeText } from "../../../operator/src/times.ts";
import { countText } from "../../../operator/src/words.ts";

/** Returns whether a webhook is enabled, even if its secret cannot be decrypted. */
export function isEnabled({ state }: Pick<Webhook, "state">): boolean {
  return state === State.ENABLED || state === State.SECRET_UNREADABLE;
}

export function stateText({ state, failedAttempts }: Webhook): string {
  if (state === State.FAILED) return "disabled by the service after three days of failures";
  if (state === State.DISABLED) return "disabled";
  if (state === State.SECRET_UNREADABLE) return "enabled, but its secret cannot be decrypted";
  return failedAttempts > 0 ? `enabled, ${countText(failedAttempts, "failed attempt")}` : "enabled";
}

/**
 * Returns the earliest time of the events that may be undelivered. Returns undefined if the state is `ENABLED` and the
 * last delivery did not fail.
 */
export function undeliveredSince({ state, failureStartTime, deliveredTime }: Webhook): Webhook["deliveredTime"] {
  return state !== State.ENABLED || failureStartTime ? deliveredTime : undefined;
}

/** The cause and the advice for each outcome of a failed attempt. `outcomeText` appends the HTTP status to a cause. */
const FAILURES: { readonly [outcome in Outcome]?: readonly [why: string, whatToDo: string] } = {
  [Outcome.STATUS]: ["the endpoint answered", "See the log of the endpoint."],
  [Outcome.REDIRECT]: ["the endpoint answered with the redirect", "Set the URL to the target of the redirect."],
  [Outcome.TIMEOUT]: ["no answer within 10 seconds", "Make the endpoint answer before it processes the event."],
  [Outcome.NAME]: ["DNS has no address for the host", "Check the URL."],
  [Outcome.ADDRESS]: [
    "the host has an address that is not public",
    "Use a public host, or ask the operator of the service to add the network of the host to WEBHOOK_ALLOW.",
  ],
  [Outcome.CONNECTION]: ["the connection was refused or closed", "Check that the endpoint is running."],
  [Outcome.SECRET]: [
    "the service cannot decrypt the secret",
    "Replace the secret, or ask the operator of the service to add the key of the secret to TOKEN_KEYS.",
  ],
  [Outcome.TLS]: [
    "the certificate of the endpoint is not valid for the host",
    "Renew the certificate, or check the URL.",
  ],
};

type Attempted = Pick<WebhookDelivery, "outcome" | "httpStatus" | "duration">;

/** Describes the result of a delivery attempt, without advice. */
export function outcomeText({ outcome, httpStatus }: Attempted): string {
  const status = httpStatus === 0 ? "" : ` ${httpStatus}`;
  // A later release of the service may return outcomes that are not in `FAILURES`.
  return outcome === Outcome.DELIVERED ? `delivered,${status}` : `${FAILURES[outcome]?.[0] ?? "failed"}${status}`;
}

/** Describes the result of TestWebhook. If the message was not delivered, the text contains advice. */
export function testText(result: Attempted): string {
  const { outcome, httpStatus, duration } = result;
  if (outcome === Outcome.DELIVERED)
    return `Delivered the test: the endpoint answered ${httpStatus} after ${duration ? durationMs(duration) : 0} ms.`;
  return `The test was not delivered: ${outcomeText(result)}. ${FAILURES[outcome]?.[1] ?? "See the documentation of webhooks."}`;
}

/** Describes the effect of RedeliverWebhook. @param start the requested start time */
export function redeliveryText(webhook: Webhook, start: NonNullable<Webhook["deliveredTime"]>): string {
  const { deliveredTime } = webhook;
  const isAhead = deliveredTime !== undefined && timestampMs(deliveredTime) < timestampMs(start);
  const from = isAhead ? deliveredTime : start;
  const when = isEnabled(webhook) ? "" : ", after you enable the webhook";
  return `The events since ${timeText(from)} are delivered${isAhead ? "" : " again"}, in order${when}.`;
}
