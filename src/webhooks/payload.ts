import { type Environment, formatEnvironmentName } from "../domain/environment.ts";
import type { FeedEvent } from "../domain/events.ts";
import type { WebhookTarget } from "../domain/webhook.ts";
import type { Message, Sender, SendResult } from "./sender.ts";
import { signedHeaders } from "./signature.ts";

/** The type of a test message. */
export const TEST_TYPE = "webhook.test";

/** The type of the message that reports removed events. */
export const MISSED_TYPE = "webhook.events_missed";

export type SentEvent = Pick<FeedEvent, "id" | "time"> & { readonly type: string } & Partial<Omit<FeedEvent, "type">>;

/** Returns the id of the message of an event. The id is the same for each attempt and each webhook. */
function messageIdOf({ number }: Pick<Environment, "number">, { id }: Pick<SentEvent, "id">): string {
  return `msg_${number}_${id}`;
}

/** Returns the body of a message. The body contains ids and the names of fields, but no values and no tokens. */
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
  const signed = { id: messageIdOf(environment, event), timestamp: Math.floor(Date.now() / 1000), body };
  const headers = {
    ...signedHeaders(signed, secrets),
    "content-type": "application/json",
    "user-agent": "user-group-service",
  };
  return { url, headers, body };
}
