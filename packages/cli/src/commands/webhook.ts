import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type Webhook, WebhookState } from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { commandGroup } from "./command.ts";
import { FieldOption, rpcCommand } from "./rpc-command.ts";

const {
  createWebhook,
  getWebhook,
  listWebhooks,
  updateWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  testWebhook,
  listWebhookDeliveries,
  redeliverWebhook,
} = AdminService.method;

const EVENTS = "types of events, such as user_group.deleted, or `*` for all";

export const webhookCommands = commandGroup("webhooks", {
  create: rpcCommand(
    createWebhook,
    "create a webhook for an https URL; shows its secret once, or writes it to the file of --out",
    {
      fields: {
        url: "<url>",
        display_name: new FieldOption("--name <text>", "the display name").makeOptionMandatory(),
        event_types: new FieldOption("--events <type...>", `${EVENTS}; default: all`),
      },
      secret: ({ webhook: created, secret }) => ({
        token: secret,
        sentence: `${describe(created)}. The secret cannot be shown again. The secret`,
        ifLost: rotateAgain(created?.id ?? ""),
      }),
    },
  ),
  list: rpcCommand(listWebhooks, "list the webhooks of an environment", {
    columns: ["id", "display_name", "state", "delivered_time", "failed_attempts", "url"],
    none: "There are no webhooks.",
  }),
  get: rpcCommand(getWebhook, "show a webhook", {
    note: ({ webhook: shown }, { webhookId }) =>
      shown?.state === WebhookState.SECRET_UNREADABLE
        ? `The service cannot decrypt the secret, and sends no messages. Add the key of the secret to TOKEN_KEYS, or run: ugs webhook rotate-secret ${webhookId}`
        : undefined,
  }),
  update: rpcCommand(updateWebhook, "change a webhook; the service then immediately makes the next delivery attempt", {
    fields: {
      // `--url` is already the name of a global option: the URL of the service.
      url: new FieldOption("--to <url>", "the https URL that receives the events"),
      display_name: new FieldOption("--name <text>", "the display name"),
      event_types: new FieldOption("--events <type...>", EVENTS),
    },
  }),
  enable: rpcCommand(updateWebhook, "enable a webhook; the service then delivers all undelivered events", {
    preset: { enabled: true },
  }),
  disable: rpcCommand(updateWebhook, "disable a webhook; the service keeps its events until you enable the webhook", {
    preset: { enabled: false },
  }),
  "rotate-secret": rpcCommand(
    rotateWebhookSecret,
    "replace the secret; shows the new secret once, or writes it to the file of --out",
    {
      secret: ({ webhook: rotated, secret }, { webhookId }) => ({
        token: secret,
        sentence: `${describe(rotated)}. For 24 hours, messages are signed with both the old and the new secret. The new secret cannot be shown again. The secret`,
        ifLost: rotateAgain(webhookId),
      }),
    },
  ),
  test: rpcCommand(testWebhook, "send a message of the type webhook.test, and show the result"),
  deliveries: rpcCommand(listWebhookDeliveries, "list the latest attempts to deliver events", {
    columns: ["create_time", "event_type", "event_id", "attempt", "outcome", "http_status", "duration"],
    none: "There were no attempts yet.",
  }),
  redeliver: rpcCommand(redeliverWebhook, "deliver events again, in their original order", {
    fields: {
      start_time: new FieldOption(
        "--since <when>",
        "the time of the first event: a time, a date, or a duration before now such as 2h",
      ).makeOptionMandatory(),
    },
  }),
  delete: rpcCommand(deleteWebhook, "delete a webhook", {
    confirm: ({ webhookId: id }) => ({
      id,
      consequence: `This deletes the webhook ${id} with its secret: its undelivered events are never delivered`,
    }),
    done: ({ webhookId }) => `Deleted the webhook ${webhookId}.`,
  }),
});

function rotateAgain(id: string): string {
  return `run: ugs webhook rotate-secret ${id}, which creates another secret`;
}

function describe(webhook: Webhook | undefined): string {
  return webhook ? `Webhook ${webhook.id}, "${webhook.displayName}"` : "The webhook";
}
