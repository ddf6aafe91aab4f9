import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type Webhook, WebhookSchema, WebhookState } from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { factsOf } from "../../../operator/src/fields.ts";
import { connect } from "../session.ts";
import { type DefineCommand, runs } from "./command.ts";
import { type EnvironmentOption, environmentOf, environmentOption } from "./options.ts";
import { rpcCommand } from "./rpc-command.ts";

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

/** `ugs webhook ...` */
export const webhookCommands: DefineCommand = (webhook, shell) => {
  rpcCommand(webhook, shell, {
    name: "create",
    description: "create a webhook for an https URL; shows its secret once, or writes it to the file of --out",
    method: createWebhook,
    fields: {
      url: "<url>",
      display_name: { flags: "--name <text>", description: "a name for people", isRequired: true },
      event_types: { flags: "--events <type...>", description: `${EVENTS}; default: all` },
    },
    secret: ({ webhook: created, secret }) => ({
      token: secret,
      sentence: `${describe(created)}. The secret cannot be shown again. It`,
      ifLost: rotateAgain(created?.id ?? ""),
    }),
  });
  rpcCommand(webhook, shell, {
    name: "list",
    description: "list the webhooks of an environment",
    method: listWebhooks,
    columns: ["id", "display_name", "state", "delivered_time", "failed_attempts", "url"],
    none: "There are no webhooks.",
  });
  rpcCommand(webhook, shell, {
    name: "get",
    description: "show a webhook",
    method: getWebhook,
    fields: { webhook_id: "<id>" },
    note: ({ webhook: shown }, { webhookId }) =>
      shown?.state === WebhookState.SECRET_UNREADABLE
        ? `The service cannot decrypt the secret, and sends no messages. Add its key to TOKEN_KEYS, or run: ugs webhook rotate-secret ${webhookId}`
        : undefined,
  });
  rpcCommand(webhook, shell, {
    name: "update",
    description: "change a webhook, and end its wait for the next attempt",
    method: updateWebhook,
    fields: {
      webhook_id: "<id>",
      // `--url` is the URL of the service.
      url: { flags: "--to <url>", description: "the https URL that receives the events" },
      display_name: { flags: "--name <text>", description: "its name for people" },
      event_types: { flags: "--events <type...>", description: EVENTS },
    },
  });
  for (const [name, description, enabled] of [
    ["enable", "let a webhook receive events, from its first undelivered one", true],
    ["disable", "let the events of a webhook wait", false],
  ] as const) {
    const command = webhook.command(name).description(description).argument("<id>").addOption(environmentOption());
    runs(command, shell, async (session, webhookId: string, options: EnvironmentOption) => {
      const environment = environmentOf(session, options);
      const { admin } = await connect(session);
      const request = { environment, webhookId, enabled, updateMask: { paths: ["enabled"] } };
      const { webhook: changed } = await admin.updateWebhook(request);
      if (changed) await session.out.record(WebhookSchema, changed, factsOf(WebhookSchema, changed));
    });
  }
  rpcCommand(webhook, shell, {
    name: "rotate-secret",
    description: "replace the secret; shows the new one once, or writes it to the file of --out",
    method: rotateWebhookSecret,
    fields: { webhook_id: "<id>" },
    secret: ({ webhook: rotated, secret }, { webhookId }) => ({
      token: secret,
      sentence: `${describe(rotated)}. The old secret also signs for 24 hours. The new secret cannot be shown again. It`,
      ifLost: rotateAgain(webhookId),
    }),
  });
  rpcCommand(webhook, shell, {
    name: "test",
    description: "send a message of the type webhook.test, and show the result",
    method: testWebhook,
    fields: { webhook_id: "<id>" },
  });
  rpcCommand(webhook, shell, {
    name: "deliveries",
    description: "list the last attempts to deliver events",
    method: listWebhookDeliveries,
    fields: { webhook_id: "<id>" },
    columns: ["create_time", "event_type", "event_id", "attempt", "outcome", "http_status", "duration"],
    none: "There were no attempts yet.",
  });
  rpcCommand(webhook, shell, {
    name: "redeliver",
    description: "deliver events again, in their order",
    method: redeliverWebhook,
    fields: {
      webhook_id: "<id>",
      start_time: {
        flags: "--since <when>",
        description: "the time of the first event: a time, a date, or a duration before now such as 2h",
        sign: -1,
        isRequired: true,
      },
    },
  });
  rpcCommand(webhook, shell, {
    name: "delete",
    description: "delete a webhook",
    method: deleteWebhook,
    fields: { webhook_id: "<id>" },
    confirm: ({ webhookId: id }) => ({
      what: `the webhook ${id}`,
      id,
      consequence: `This deletes the webhook ${id} with its secret: its undelivered events are never delivered`,
    }),
    done: ({ webhookId }) => `Deleted the webhook ${webhookId}.`,
  });
};

function rotateAgain(id: string): string {
  return `run: ugs webhook rotate-secret ${id}, which creates another secret`;
}

function describe(webhook: Webhook | undefined): string {
  return webhook ? `Webhook ${webhook.id}, "${webhook.displayName}"` : "The webhook";
}
