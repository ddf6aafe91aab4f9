import { durationFromMs } from "@bufbuild/protobuf/wkt";
import {
  DeliveryOutcome as Outcome,
  WebhookState as State,
  type UpdateWebhookRequest,
  UpdateWebhookRequestSchema,
} from "../../../gen/usergroup/admin/v1/webhook_pb.ts";
import type { Network } from "../../domain/client-address.ts";
import { EventTypeUnknown } from "../../domain/errors.ts";
import { EVENT_TYPES } from "../../domain/events.ts";
import type {
  Delivery,
  DeliveryOutcome,
  SendResult,
  Webhook,
  WebhookChange,
  WebhookState,
} from "../../domain/webhook.ts";
import { parseWebhookUrl } from "../../domain/webhook-url.ts";
import { invalidField } from "../errors.ts";
import { maskedFields, timeOf, timestamp } from "../messages.ts";
import { withTimestamps } from "./messages.ts";
import { type AdminDeps, type AdminRpcs, environmentRpc } from "./requests.ts";

const UPDATED_FIELDS = ["display_name", "url", "event_types", "enabled"] as const;

/** Only the responses of CreateWebhook and RotateWebhookSecret contain a secret. */
export function webhookRpcs({ environments, webhooks, webhookAllow, sendTest }: AdminDeps) {
  const inEnvironment = environmentRpc(environments);
  return {
    createWebhook: inEnvironment(async (environment, { displayName, url, eventTypes }, call) => {
      const created = { displayName, url: parseWebhookUrl(url, webhookAllow), eventTypes: eventTypesOf(eventTypes) };
      const { webhook, secret } = await webhooks.create(environment, created, call);
      return { webhook: webhookMessage(webhook), secret };
    }),

    getWebhook: inEnvironment(async (environment, { webhookId }) => {
      return { webhook: webhookMessage(await webhooks.get(environment, webhookId)) };
    }),

    listWebhooks: inEnvironment(async (environment) => {
      return { webhooks: (await webhooks.list(environment)).map(webhookMessage) };
    }),

    updateWebhook: inEnvironment(async (environment, request, call) => {
      const change = changeOf(request, webhookAllow);
      return { webhook: webhookMessage(await webhooks.update(environment, request.webhookId, change, call)) };
    }),

    deleteWebhook: inEnvironment(async (environment, { webhookId }, call) => {
      await webhooks.delete(environment, webhookId, call);
      return {};
    }),

    rotateWebhookSecret: inEnvironment(async (environment, { webhookId }, call) => {
      const { webhook, secret } = await webhooks.rotateSecret(environment, webhookId, call);
      return { webhook: webhookMessage(webhook), secret };
    }),

    testWebhook: inEnvironment(async (environment, { webhookId }) => {
      return resultMessage(await sendTest(environment, await webhooks.beginTest(environment, webhookId)));
    }),

    listWebhookDeliveries: inEnvironment(async (environment, { webhookId }) => {
      return { deliveries: (await webhooks.deliveries(environment, webhookId)).map(deliveryMessage) };
    }),

    redeliverWebhook: inEnvironment(async (environment, { webhookId, startTime }, call) => {
      // Validation has refused a request without a time, so the default 0 is never used.
      const time = Math.max(timeOf(startTime) ?? 0, 0);
      return { webhook: webhookMessage(await webhooks.rewind(environment, webhookId, time, call)) };
    }),
  } satisfies Partial<AdminRpcs>;
}

function changeOf(request: UpdateWebhookRequest, allowed: readonly Network[]): WebhookChange {
  const fields = maskedFields(UpdateWebhookRequestSchema, request, UPDATED_FIELDS);
  const { displayName, url, eventTypes, enabled } = request;
  if (fields.includes("display_name") && displayName === "") throw invalidField("display_name", "must not be empty");
  return {
    ...(fields.includes("display_name") && { displayName }),
    ...(fields.includes("url") && { url: parseWebhookUrl(url, allowed) }),
    ...(fields.includes("event_types") && { eventTypes: eventTypesOf(eventTypes) }),
    ...(fields.includes("enabled") && { state: enabled ? "enabled" : "disabled" }),
  };
}

function eventTypesOf(types: readonly string[]): readonly string[] {
  if (types.length === 1 && types[0] === "*") return [];
  const known: readonly string[] = EVENT_TYPES;
  if (!types.every((type) => known.includes(type))) throw new EventTypeUnknown(...known);
  return [...new Set(types)].sort();
}

function webhookMessage(webhook: Webhook) {
  return withTimestamps({
    ...webhook,
    eventTypes: [...webhook.eventTypes],
    state: State[webhook.state.toUpperCase() as Uppercase<WebhookState>],
    deliveredTime: Math.floor(webhook.cursor / 1000),
    failureStartTime: webhook.failingSince,
  });
}

function resultMessage({ outcome, status = 0, durationMs }: SendResult) {
  const name = outcome.toUpperCase() as Uppercase<DeliveryOutcome>;
  return { outcome: Outcome[name], httpStatus: status, duration: durationFromMs(Math.round(durationMs)) };
}

function deliveryMessage(delivery: Delivery) {
  return { ...delivery, ...resultMessage(delivery), createTime: timestamp(delivery.time) };
}
