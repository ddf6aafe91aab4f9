import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { UpdateWebhookRequest } from "../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { DeliveryOutcome as Outcome, WebhookState as State } from "../../../gen/usergroup/admin/v1/webhook_pb.ts";
import type { Network } from "../../domain/client-address.ts";
import { EventTypeUnknown } from "../../domain/errors.ts";
import { EVENT_TYPES } from "../../domain/events.ts";
import type {
  Delivery,
  DeliveryOutcome,
  TestResult,
  Webhook,
  WebhookChange,
  WebhookState,
} from "../../domain/webhook.ts";
import { parseWebhookUrl } from "../../domain/webhook-url.ts";
import { callOf } from "../call-context.ts";
import { invalidField } from "../errors.ts";
import { maskedFields, timeOf, timestamp } from "../messages.ts";
import { type AdminDeps, type AdminRpcs, targetOf } from "./requests.ts";

const UPDATED_FIELDS = ["display_name", "url", "event_types", "enabled"] as const;

/** Only the responses of CreateWebhook and RotateWebhookSecret contain a secret. */
export function webhookRpcs({ environments, webhooks, webhookAllow, sendTest }: AdminDeps) {
  return {
    async createWebhook({ environment: named, displayName, url, eventTypes }, { values }) {
      const created = { displayName, url: parseWebhookUrl(url, webhookAllow), eventTypes: eventTypesOf(eventTypes) };
      const environment = await targetOf(environments, values, named);
      const { webhook, secret } = await webhooks.create(environment, created, callOf(values));
      return { webhook: webhookMessage(webhook), secret };
    },

    async getWebhook({ environment: named, webhookId }, { values }) {
      const environment = await targetOf(environments, values, named);
      return { webhook: webhookMessage(await webhooks.get(environment, webhookId)) };
    },

    async listWebhooks({ environment: named }, { values }) {
      const environment = await targetOf(environments, values, named);
      return { webhooks: (await webhooks.list(environment)).map(webhookMessage) };
    },

    async updateWebhook(request, { values }) {
      const change = changeOf(request, webhookAllow);
      const environment = await targetOf(environments, values, request.environment);
      return { webhook: webhookMessage(await webhooks.update(environment, request.webhookId, change, callOf(values))) };
    },

    async deleteWebhook({ environment: named, webhookId }, { values }) {
      const environment = await targetOf(environments, values, named);
      await webhooks.delete(environment, webhookId, callOf(values));
      return {};
    },

    async rotateWebhookSecret({ environment: named, webhookId }, { values }) {
      const environment = await targetOf(environments, values, named);
      const { webhook, secret } = await webhooks.rotateSecret(environment, webhookId, callOf(values));
      return { webhook: webhookMessage(webhook), secret };
    },

    async testWebhook({ environment: named, webhookId }, { values }) {
      const environment = await targetOf(environments, values, named);
      return resultMessage(await sendTest(environment, await webhooks.beginTest(environment, webhookId)));
    },

    async listWebhookDeliveries({ environment: named, webhookId }, { values }) {
      const environment = await targetOf(environments, values, named);
      return { deliveries: (await webhooks.deliveries(environment, webhookId)).map(deliveryMessage) };
    },

    async redeliverWebhook({ environment: named, webhookId, startTime }, { values }) {
      const environment = await targetOf(environments, values, named);
      // The time is never undefined, because validation has refused a request that has no time. So the first 0 is never
      // used.
      const time = Math.max(timeOf(startTime) ?? 0, 0);
      return { webhook: webhookMessage(await webhooks.rewind(environment, webhookId, time, callOf(values))) };
    },
  } satisfies Partial<AdminRpcs>;
}

function changeOf(request: UpdateWebhookRequest, allowed: readonly Network[]): WebhookChange {
  const fields = maskedFields(request, UPDATED_FIELDS, isPopulated);
  const { displayName, url, eventTypes, enabled: isEnabled } = request;
  if (fields.includes("display_name") && displayName === "") throw invalidField("display_name", "must not be empty");
  return {
    ...(fields.includes("display_name") && { displayName }),
    ...(fields.includes("url") && { url: parseWebhookUrl(url, allowed) }),
    ...(fields.includes("event_types") && { eventTypes: eventTypesOf(eventTypes) }),
    ...(fields.includes("enabled") && { isEnabled }),
  };
}

function isPopulated(request: UpdateWebhookRequest, field: (typeof UPDATED_FIELDS)[number]): boolean {
  if (field === "enabled") return request.enabled;
  if (field === "event_types") return request.eventTypes.length > 0;
  return request[field === "url" ? "url" : "displayName"] !== "";
}

function eventTypesOf(types: readonly string[]): readonly string[] {
  if (types.length === 1 && types[0] === "*") return [];
  const known: readonly string[] = EVENT_TYPES;
  if (!types.every((type) => known.includes(type))) throw new EventTypeUnknown(...known);
  return [...new Set(types)].sort();
}

const STATES: { readonly [state in WebhookState]: State } = {
  enabled: State.ENABLED,
  disabled: State.DISABLED,
  failed: State.FAILED,
  unreadable: State.SECRET_UNREADABLE,
};

const OUTCOMES: { readonly [outcome in DeliveryOutcome]: Outcome } = {
  delivered: Outcome.DELIVERED,
  status: Outcome.STATUS,
  redirect: Outcome.REDIRECT,
  timeout: Outcome.TIMEOUT,
  name: Outcome.NAME,
  address: Outcome.ADDRESS,
  connection: Outcome.CONNECTION,
  tls: Outcome.TLS,
  secret: Outcome.SECRET,
};

function webhookMessage(webhook: Webhook) {
  const { id, displayName, url, eventTypes, state, failedAttempts } = webhook;
  return {
    id,
    displayName,
    url,
    eventTypes: [...eventTypes],
    state: STATES[state],
    createTime: timestamp(webhook.createTime),
    updateTime: timestamp(webhook.updateTime),
    previousSecretExpireTime: timestamp(webhook.previousSecretExpireTime),
    deliveredTime: timestamp(Math.floor(webhook.cursor / 1000)),
    lastSuccessTime: timestamp(webhook.lastSuccessTime),
    failureStartTime: timestamp(webhook.failingSince),
    failedAttempts,
    nextAttemptTime: timestamp(webhook.nextAttemptTime),
  };
}

function resultMessage({ outcome, status = 0, durationMs }: TestResult) {
  return { outcome: OUTCOMES[outcome], httpStatus: status, duration: durationFromMs(Math.round(durationMs)) };
}

function deliveryMessage(delivery: Delivery) {
  const { time, eventId, eventType, attempt } = delivery;
  return { ...resultMessage(delivery), createTime: timestamp(time), eventId, eventType, attempt };
}
