import { createHmac } from "node:crypto";
import { type Environment, formatEnvironmentName } from "../domain/environment.ts";
import type { FeedEvent } from "../domain/events.ts";
import { type SendResult, WEBHOOK_SECRET_PREFIX, type WebhookTarget } from "../domain/webhook.ts";
import type { Message, Sender } from "./sender.ts";

/** The type of a test message. */
export const TEST_TYPE = "webhook.test";

/** The type of the message that reports events which were removed or lost before their delivery. */
export const MISSED_TYPE = "webhook.events_missed";

export type SentEvent = Pick<FeedEvent, "id" | "time"> & { readonly type: string } & Partial<Omit<FeedEvent, "type">>;

/** Returns the body of a message. The body contains ids and the names of changed fields, but no values or tokens. */
function payloadOf(environment: Environment, event: SentEvent): string {
  const { id, type, time, actorId, userGroupId, apiTokenId, webhookId, changedFields = [] } = event;
  return JSON.stringify({
    type,
    timestamp: new Date(time).toISOString(),
    data: {
      event_id: id,
      environment: formatEnvironmentName(environment),
      actor_id: actorId,
      user_group_id: userGroupId,
      api_token_id: apiTokenId,
      webhook_id: webhookId,
      changed_fields: changedFields,
    },
  });
}

/** Sends an event to a webhook. Rejects only if `signal` aborts, with the reason of the signal. */
export async function sendEvent(
  sender: Sender,
  environment: Environment,
  { webhook: { url }, secrets }: WebhookTarget,
  { event, signal }: { readonly event: SentEvent; readonly signal?: AbortSignal },
): Promise<SendResult> {
  if (secrets.length === 0) return { outcome: "secret", status: undefined, durationMs: 0 };
  return sender.send(messageOf(environment, event, { url, secrets }), signal);
}

export function messageOf(
  environment: Environment,
  event: SentEvent,
  { url, secrets }: { readonly url: string; readonly secrets: readonly string[] },
): Message {
  const body = payloadOf(environment, event);
  // All attempts and all webhooks of the environment use the same message id for an event.
  const id = `msg_${environment.number}_${event.id}`;
  const signed = { id, timestamp: Math.floor(Date.now() / 1000), body };
  const headers = {
    ...signedHeaders(signed, secrets),
    "content-type": "application/json",
    "user-agent": "user-group-service",
  };
  return { url, headers, body };
}

/** A message to sign. `timestamp` is in seconds since 1970. */
interface Signable {
  readonly id: string;
  readonly timestamp: number;
  readonly body: string;
}

/** Returns the headers of Standard Webhooks (https://www.standardwebhooks.com), with one signature per secret. */
export function signedHeaders({ id, timestamp, body }: Signable, secrets: readonly string[]) {
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(WEBHOOK_SECRET_PREFIX.length), "base64");
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
  });
  return { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": signatures.join(" ") };
}
