import { useState } from "preact/hooks";
import {
  WebhookState as State,
  type Webhook,
  WebhookDeliverySchema,
  WebhookSchema,
} from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { useAction, useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ConfirmButton } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Form, TextField } from "../parts/field.tsx";
import { columnsFor, MessageFacts } from "../parts/message.tsx";
import { Page, Section, useSecret } from "../parts/page.tsx";
import { ListTable } from "../parts/table.tsx";
import { go, hrefOf, type Params } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { fieldsIn, WebhookFieldset, type WebhookValues } from "../webhooks/webhook-form.tsx";
import { outcomeText, redeliveryText, stateText, testText, undeliveredSince } from "../webhooks/webhooks.ts";
import { timeIn, timeText } from "../words.ts";

/** The properties of the forms that act on a webhook. */
interface Acting {
  readonly webhook: Webhook;
  /** Reads the webhook and its deliveries again. */
  readonly again: () => void;
}

/** One webhook: its facts and deliveries, and the forms that change, test, rotate and delete it. */
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
    <Page title="Webhook" detail={webhookId}>
      <ul class="links">
        <li>
          <a href={hrefOf("webhooks", { env })}>All webhooks</a>
        </li>
      </ul>
      <FailureBox error={error} again={again} />
      {!value && isBusy && <p>Reading …</p>}
      {acting && (
        <>
          <Condition {...acting} />
          <MessageFacts schema={WebhookSchema} message={acting.webhook} />
          <CommandLine command="webhook get" args={[webhookId]} env={env} />
          <Actions {...acting} />
          <Section title="Deliveries">
            <ListTable
              list={{ items: value.deliveries, isBusy, error: undefined }}
              none="There are no deliveries yet."
              caption="The last attempts, newest first"
              keyOf={({ eventId, attempt, createTime }) => `${eventId} ${attempt} ${timeText(createTime)}`}
              columns={[
                { name: "Time", of: ({ createTime }) => timeText(createTime) },
                ...columnsFor(WebhookDeliverySchema, ["event_type"]),
                { name: "Outcome", of: outcomeText },
                ...columnsFor(WebhookDeliverySchema, ["attempt", "duration"]),
                { name: "Event", of: ({ eventId }) => <span class="id">{eventId}</span> },
              ]}
            />
            <p class="buttons">
              <button type="button" aria-disabled={isBusy} onClick={again}>
                Read again
              </button>
            </p>
            <CommandLine command="webhook deliveries" args={[webhookId]} env={env} />
          </Section>
          <Redeliver {...acting} />
          <Update {...acting} />
          <RotateSecret {...acting} />
          <Delete {...acting} />
        </>
      )}
    </Page>
  );
}

/** Explains why events are not delivered now. */
function Condition({ webhook }: { readonly webhook: Webhook }) {
  const since = undeliveredSince(webhook);
  if (!since) return null;
  const { state, nextAttemptTime } = webhook;
  return (
    <p class="note">
      The webhook is {stateText(webhook)}. Events since {timeText(since)} may be undelivered.{" "}
      {state === State.DISABLED && "They wait until you enable it, for AUDIT_RETENTION at most."}
      {state === State.FAILED &&
        "Repair the endpoint, send a test, then enable the webhook: its events are delivered, unless they are older than AUDIT_RETENTION."}
      {state === State.SECRET_UNREADABLE &&
        "The service cannot sign messages. Replace the secret, and give the new one to the endpoint: the events are delivered, unless they are older than AUDIT_RETENTION."}
      {state === State.ENABLED &&
        `The next attempt is at ${timeText(nextAttemptTime)}. If all attempts of three days fail, the service disables the webhook.`}
    </p>
  );
}

/** The buttons that act at once. */
function Actions({ webhook: { id, state }, again }: Acting) {
  const { admin, environment, env } = useSession();
  const isEnabled = state === State.ENABLED;
  const testing = useAction(async () => {
    const result = await admin.testWebhook({ environment, webhookId: id });
    return testText(result);
  });
  const switching = useAction(async () => {
    const updateMask = { paths: ["enabled"] };
    await admin.updateWebhook({ environment, webhookId: id, enabled: !isEnabled, updateMask });
    again();
    return isEnabled
      ? `Disabled the webhook ${id}. Its events wait for AUDIT_RETENTION.`
      : `Enabled the webhook ${id}. The events that wait are delivered now.`;
  });
  return (
    <>
      <FailureBox error={testing.error} />
      <FailureBox error={switching.error} />
      <div class="buttons">
        <button type="button" aria-disabled={testing.isBusy} onClick={testing.run}>
          {testing.isBusy ? "Wait …" : "Send a test"}
        </button>
        <button type="button" aria-disabled={switching.isBusy} onClick={switching.run}>
          {isEnabled ? "Disable" : "Enable"}
        </button>
      </div>
      <CommandLine command="webhook test" args={[id]} env={env} />
      <CommandLine command={isEnabled ? "webhook disable" : "webhook enable"} args={[id]} env={env} />
    </>
  );
}

/** Changes the name, the URL and the event types. A field that was not touched follows the webhook. */
function Update({ webhook, again }: Acting) {
  const { admin, environment, env } = useSession();
  const { id, displayName, url, eventTypes } = webhook;
  const present: WebhookValues = { displayName, url, isOfAllTypes: eventTypes.length === 0, eventTypes };
  const [touched, setTouched] = useState<Partial<WebhookValues>>({});
  const values = { ...present, ...touched };
  const names = Object.keys(present) as (keyof WebhookValues)[];
  const isChanged = (name: keyof WebhookValues) => String(values[name]) !== String(present[name]);
  const touch = (changed: WebhookValues) =>
    setTouched(
      Object.fromEntries(names.filter((name) => changed[name] !== present[name]).map((name) => [name, changed[name]])),
    );
  const isOfOtherTypes = isChanged("isOfAllTypes") || (!values.isOfAllTypes && isChanged("eventTypes"));
  const options = {
    to: isChanged("url") ? values.url.trim() : undefined,
    name: isChanged("displayName") ? values.displayName : undefined,
    events: isOfOtherTypes ? (values.isOfAllTypes ? ["*"] : values.eventTypes) : undefined,
  };
  const update = async () => {
    const fields = fieldsIn(values);
    const paths = [
      ...(isChanged("displayName") ? ["display_name"] : []),
      ...(isChanged("url") ? ["url"] : []),
      ...(isOfOtherTypes ? ["event_types"] : []),
    ];
    if (paths.length === 0) throw new InvalidInput("Nothing to save: no field was changed.");
    await admin.updateWebhook({ environment, webhookId: id, ...fields, updateMask: { paths } });
    setTouched({});
    again();
    return `Saved the webhook ${id}.`;
  };
  return (
    <Section title="Change">
      <Form label="Change" submit="Save" isUnsaved={names.some(isChanged)} act={update}>
        <WebhookFieldset values={values} onValues={touch} />
      </Form>
      <CommandLine
        command="webhook update"
        options={names.some(isChanged) ? options : { name: "NAME" }}
        args={[id]}
        env={env}
      />
    </Section>
  );
}

function Redeliver({ webhook: { id }, again }: Acting) {
  const { admin, environment, env } = useSession();
  const [since, setSince] = useState("");
  const redeliver = async () => {
    const startTime = timeIn("Since", since, -1);
    const { webhook } = await admin.redeliverWebhook({ environment, webhookId: id, startTime });
    setSince("");
    again();
    return webhook && redeliveryText(webhook, startTime);
  };
  return (
    <Section title="Deliver events again">
      <Form label="Deliver events again" submit="Deliver again" act={redeliver}>
        <TextField
          label="Since"
          hint="A time, a date, or a duration ago such as 1h. All events since then are sent again, with the same ids. Events older than AUDIT_RETENTION no longer exist."
          value={since}
          onValue={setSince}
        />
      </Form>
      <CommandLine
        command="webhook redeliver"
        options={{ since: since.trim().replace(" ", "T") || "1h" }}
        args={[id]}
        env={env}
      />
    </Section>
  );
}

function RotateSecret({ webhook: { id }, again }: Acting) {
  const showSecret = useSecret();
  const { admin, environment, env } = useSession();
  const rotating = useAction(async () => {
    const { secret } = await admin.rotateWebhookSecret({ environment, webhookId: id });
    showSecret({
      title: `The new secret of the webhook ${id}`,
      token: secret,
      noun: "secret",
      lost: "Messages have signatures of the former secret, too, for 24 hours. The new one is not shown again. If it is lost, rotate it again.",
    });
    again();
    return `Rotated the secret of the webhook ${id}. The new one is shown only once.`;
  });
  return (
    <Section title="Rotate the secret">
      <p>
        The former secret also signs for 24 hours. Deploy the new one in that time. If a secret has leaked, delete the
        webhook and create another one.
      </p>
      <FailureBox error={rotating.error} />
      <p class="buttons">
        <button type="button" aria-disabled={rotating.isBusy} onClick={rotating.run}>
          {rotating.isBusy ? "Wait …" : "Rotate the secret"}
        </button>
      </p>
      <CommandLine command="webhook rotate-secret" args={[id]} env={env} />
    </Section>
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
    <Section title="Delete">
      <div class="buttons">
        <ConfirmButton
          label="Delete the webhook …"
          title="Delete a webhook"
          id={id}
          consequence={`This permanently deletes the webhook ${id} (${displayName}). ${url} receives no further events, and undelivered ones are not sent.`}
          button="Delete it"
          command={{ command: "webhook delete", args: [id], env }}
          onConfirm={remove}
        />
      </div>
    </Section>
  );
}
