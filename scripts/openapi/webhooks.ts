import { EVENT_TYPES } from "../../src/domain/events.ts";
import type { JsonSchema } from "./rules.ts";

/** Descriptions of the messages that are not events of the audit trail. The key is the type of the message. */
const OTHER_TYPES = {
  "webhook.test": "A test message.",
  "webhook.events_missed": "Events were removed before their delivery. Read all groups again.",
} as const;

/**
 * Maps the first part of an event type to a field and the description of this field. The field contains the id of the
 * changed resource.
 */
const RESOURCES: { readonly [part: string]: readonly [field: string, description: string] } = {
  user_group: ["user_group_id", "Id of the user group."],
  viewer_sessions: ["user_group_id", "Id of the user group to which the sessions belong."],
  api_token: ["api_token_id", "Id of the API token."],
  webhook: ["webhook_id", "Id of the webhook."],
};

const HEADERS = [
  ["webhook-id", "Id of the event. Each attempt has the same id."],
  ["webhook-timestamp", "Time of the attempt, in seconds since 1970."],
  ["webhook-signature", "Signatures according to Standard Webhooks, one per secret, separated by spaces."],
] as const;

export function webhooksOf(): JsonSchema {
  const types = EVENT_TYPES.map((type) => [type, "An event of this type."] as const);
  return Object.fromEntries(
    [...types, ...Object.entries(OTHER_TYPES)].map(([type, description]) => [
      type,
      { post: operationOf(type, description) },
    ]),
  );
}

function operationOf(type: string, description: string): JsonSchema {
  return {
    operationId: `on_${type.replace(".", "_")}`,
    summary: type,
    description,
    security: [],
    tags: ["Webhooks"],
    parameters: HEADERS.map(([name, meaning]) => ({
      ...{ name, in: "header", required: true, description: meaning },
      schema: { type: "string" },
    })),
    requestBody: { required: true, content: { "application/json": { schema: messageSchema(type) } } },
    responses: {
      "2XX": { description: "The endpoint has received the event. The service then sends the next event." },
      default: { description: "The service sends the event again later." },
    },
  };
}

function messageSchema(type: string): JsonSchema {
  const isEvent = !(type in OTHER_TYPES);
  const [part = ""] = type.split(".");
  const resource = type === "webhook.events_missed" ? undefined : RESOURCES[part];
  const data = {
    event_id: { type: "string", description: "Id of the event, as in the audit trail." },
    environment: { type: "string", description: "Name and tag of the environment, such as `acme/Customer`." },
    ...(isEvent && {
      actor_id: { type: "string", description: "Id of the caller's API token, `root` for ADMIN_TOKEN, or `service`." },
    }),
    ...(resource && { [resource[0]]: { type: "string", description: resource[1] } }),
    changed_fields: { type: "array", items: { type: "string" }, description: "Names of the changed fields." },
  };
  return {
    type: "object",
    required: ["type", "timestamp", "data"],
    properties: {
      type: { type: "string", enum: [type] },
      timestamp: { type: "string", format: "date-time", description: "Time of the change." },
      data: { type: "object", required: Object.keys(data), properties: data },
    },
  };
}
