import { History, Pause, Pencil, Play, RefreshCw, RotateCw, Send, Trash2 } from "lucide-preact";
import { useState } from "preact/hooks";
import {
  DeliveryOutcome as Outcome,
  WebhookState as State,
  type Webhook,
  WebhookDeliverySchema,
  WebhookSchema,
} from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { timeIn } from "../../../operator/src/input.ts";
import { timeText } from "../../../operator/src/times.ts";
import { Badge } from "../parts/badge.tsx";
import { useAction, useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ChangeButton, ChangeDialog, type Closable, DialogButton } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { requireChanges, TextField, useFields } from "../parts/field.tsx";
import { columnsFor, MessageFacts } from "../parts/message.tsx";
import { Links, Page, Section, useSecret } from "../parts/page.tsx";
import { ListTable, Skeleton } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";
import { go, hrefOf, type Params } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { fieldsIn, WebhookFieldset, type WebhookValues } from "../webhooks/webhook-form.tsx";
import { WebhookState } from "../webhooks/webhook-state.tsx";
import { isEnabled, outcomeText, redeliveryText, stateText, testText, undeliveredSince } from "../webhooks/webhooks.ts";

interface Acting {
  readonly webhook: Webhook;
  readonly again: () => void;
}

/** Shows a webhook with its deliveries, and the forms that change the webhook. */
export function WebhookPage({ params }: { readonly params: Params }) {
  const webhookId = params["id"] ?? "";
  const { admin, environment, env } = useSession();
  const answer = useAnswer(`webhook ${webhookId}`, async (signal) => {
    const request = { environment, webhookId };
    const [{ webhook }, { deliveries }] = await Promise.all([
      admin.getWebhook(request, { signal }),
      admin.listWebhookDeliveries(request, { signal }),
    ]);
    return { webhook, deliveries };
  });
  const { value, isBusy, error, again } = answer;
  const acting = value?.webhook && { webhook: value.webhook, again };
  return (
    <Page
      title="Webhook"
      detail={webhookId}
      beside={
        <Links>
          {acting && <WebhookState {...acting} />}
          <a href={hrefOf("webhooks", { env })}>All webhooks</a>
        </Links>
      }
      actions={acting && <Actions {...acting} />}
    >
      <FailureBox error={error} again={again} />
      {!value && isBusy && <Skeleton />}
      {acting && (
        <>
          <Condition {...acting} />
          <Section title="Details">
            <MessageFacts schema={WebhookSchema} message={acting.webhook} />
            <CommandLine command="webhook get" args={[webhookId]} />
          </Section>
          <Section
            title="Deliveries"
            actions={
              <>
                <button type="button" aria-disabled={isBusy} onClick={again}>
                  <RotateCw aria-hidden />
                  Read again
                </button>
                <DialogButton label="Deliver again" icon={History}>
                  {(close) => <Redeliver {...acting} onClose={close} />}
                </DialogButton>
              </>
            }
          >
            <ListTable
              list={{ items: value.deliveries, isBusy, error: undefined }}
              none="There are no deliveries yet. Send a test, or change a user group."
              caption="The last attempts, newest first"
              keyOf={({ eventId, attempt, createTime }) => `${eventId} ${attempt} ${timeText(createTime)}`}
              columns={[
                { name: "Time", of: ({ createTime }) => <Time time={createTime} /> },
                ...columnsFor(WebhookDeliverySchema, ["event_type"]),
                {
                  name: "Outcome",
                  of: (attempt) => (
                    <Badge tone={attempt.outcome === Outcome.DELIVERED ? "good" : "bad"}>{outcomeText(attempt)}</Badge>
                  ),
                },
                ...columnsFor(WebhookDeliverySchema, ["attempt", "duration"]),
                { name: "Event", of: ({ eventId }) => <span class="id">{eventId}</span> },
              ]}
            />
            <CommandLine command="webhook deliveries" args={[webhookId]} />
          </Section>
        </>
      )}
    </Page>
  );
}

/** Explains why events are not delivered at the moment. */
function Condition({ webhook }: { readonly webhook: Webhook }) {
  const since = undeliveredSince(webhook);
  if (!since) return null;
  const { state, nextAttemptTime } = webhook;
  return (
    <p class="note">
      The webhook is {stateText(webhook)}. Events since {timeText(since)} may be undelivered.{" "}
      {state === State.DISABLED &&
        "These events wait until you enable the webhook. The service deletes events that are older than AUDIT_RETENTION."}
      {state === State.FAILED &&
        "Repair the endpoint, send a test, then enable the webhook. The service then delivers the events that are not older than AUDIT_RETENTION."}
      {state === State.SECRET_UNREADABLE &&
        "The service cannot sign messages. Replace the secret, and give the new secret to the endpoint. The service then delivers the events that are not older than AUDIT_RETENTION."}
      {state === State.ENABLED &&
        `The next attempt is at ${timeText(nextAttemptTime) ?? "–"}. If all attempts fail for three days, the service disables the webhook.`}
    </p>
  );
}

function Actions(acting: Acting) {
  const { admin, environment } = useSession();
  const { webhook, again } = acting;
  const { id } = webhook;
  const isOn = isEnabled(webhook);
  const testing = useAction(async () => {
    const result = await admin.testWebhook({ environment, webhookId: id });
    return testText(result);
  });
  const switching = useAction(async () => {
    const updateMask = { paths: ["enabled"] };
    await admin.updateWebhook({ environment, webhookId: id, enabled: !isOn, updateMask });
    again();
    return isOn
      ? `Disabled the webhook ${id}. Its events wait until you enable the webhook. The service deletes events that are older than AUDIT_RETENTION.`
      : `Enabled the webhook ${id}. The service now delivers the waiting events.`;
  });
  return (
    <>
      <button type="button" class="main" aria-disabled={testing.isBusy} onClick={testing.run}>
        <Send aria-hidden />
        {testing.isBusy ? "Wait …" : "Send a test"}
      </button>
      <button type="button" aria-disabled={switching.isBusy} onClick={switching.run}>
        {isOn ? <Pause aria-hidden /> : <Play aria-hidden />}
        {isOn ? "Disable" : "Enable"}
      </button>
      <DialogButton label="Edit" icon={Pencil}>
        {(close) => <Update {...acting} onClose={close} />}
      </DialogButton>
      <RotateSecret {...acting} />
      <Delete {...acting} />
      <FailureBox error={testing.error} isRead />
      <FailureBox error={switching.error} />
    </>
  );
}

function Update({ webhook, again, onClose }: Acting & Closable) {
  const { admin, environment } = useSession();
  const { id, displayName, url, eventTypes } = webhook;
  const stored: WebhookValues = { displayName, url, isOfAllTypes: eventTypes.length === 0, eventTypes };
  const { values, changed, field } = useFields(stored);
  const isRenamed = changed.includes("displayName");
  const isMoved = changed.includes("url");
  const isOfOtherTypes = changed.includes("isOfAllTypes") || (!values.isOfAllTypes && changed.includes("eventTypes"));
  const options = {
    to: isMoved ? values.url.trim() : undefined,
    name: isRenamed ? values.displayName : undefined,
    events: isOfOtherTypes ? (values.isOfAllTypes ? ["*"] : values.eventTypes) : undefined,
  };
  const update = async () => {
    const fields = fieldsIn(values);
    const paths = [
      ...(isRenamed ? ["display_name"] : []),
      ...(isMoved ? ["url"] : []),
      ...(isOfOtherTypes ? ["event_types"] : []),
    ];
    requireChanges(paths);
    await admin.updateWebhook({ environment, webhookId: id, ...fields, updateMask: { paths } });
    again();
    return `Saved the webhook ${id}.`;
  };
  return (
    <ChangeDialog
      title="Edit the webhook"
      button="Save"
      command={{ command: "webhook update", options: changed.length > 0 ? options : { name: "NAME" }, args: [id] }}
      isUnsaved={changed.length > 0}
      onConfirm={update}
      onClose={onClose}
    >
      <WebhookFieldset field={field} />
    </ChangeDialog>
  );
}

function Redeliver({ webhook: { id }, again, onClose }: Acting & Closable) {
  const { admin, environment } = useSession();
  const [since, setSince] = useState("");
  const redeliver = async () => {
    const startTime = timeIn("Since", since, -1);
    const { webhook } = await admin.redeliverWebhook({ environment, webhookId: id, startTime });
    again();
    return webhook && redeliveryText(webhook, startTime);
  };
  return (
    <ChangeDialog
      title="Deliver events again"
      button="Deliver them"
      command={{
        command: "webhook redeliver",
        options: { since: since.trim().replace(" ", "T") || "1h" },
        args: [id],
      }}
      onConfirm={redeliver}
      onClose={onClose}
    >
      <TextField
        label="Since"
        hint="A time, a date, or a duration such as 1h before now. The service sends all stored events from this time on once more, with the same ids. The service stores events for AUDIT_RETENTION."
        value={since}
        onValue={setSince}
      />
    </ChangeDialog>
  );
}

function RotateSecret({ webhook: { id }, again }: Acting) {
  const showSecret = useSecret();
  const { admin, environment } = useSession();
  const rotate = async () => {
    const { secret } = await admin.rotateWebhookSecret({ environment, webhookId: id });
    showSecret({
      title: `The new secret of the webhook ${id}`,
      token: secret,
      noun: "secret",
      lost: "For 24 hours, messages are signed with both the old and the new secret. The new secret is not shown again. If you lose the new secret, rotate the secret again.",
    });
    again();
    return `Rotated the secret of the webhook ${id}. The new secret is shown only once.`;
  };
  return (
    <ChangeButton
      icon={RefreshCw}
      label="Rotate the secret"
      title="Rotate the secret"
      consequence="For 24 hours, messages are signed with both the old and the new secret. Deploy the new secret within this time. If a secret has leaked, delete the webhook and create another webhook."
      button="Rotate"
      command={{ command: "webhook rotate-secret", args: [id] }}
      onConfirm={rotate}
    />
  );
}

function Delete({ webhook: { id, displayName, url } }: Acting) {
  const { admin, environment, env } = useSession();
  const remove = async () => {
    await admin.deleteWebhook({ environment, webhookId: id });
    go(hrefOf("webhooks", { env }), true);
    return `Deleted the webhook ${displayName}.`;
  };
  return (
    <ChangeButton
      icon={Trash2}
      label="Delete"
      title="Delete a webhook"
      id={id}
      consequence={`This permanently deletes the webhook ${id} (${displayName}). ${url} receives no further events, and undelivered events are not sent.`}
      button="Delete it"
      command={{ command: "webhook delete", args: [id] }}
      onConfirm={remove}
    />
  );
}
