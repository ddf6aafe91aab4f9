import { Plus } from "lucide-preact";
import { WebhookSchema } from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ChangeDialog, DialogButton } from "../parts/dialog.tsx";
import { useFields } from "../parts/field.tsx";
import { columnsFor } from "../parts/message.tsx";
import { Page, useSecret } from "../parts/page.tsx";
import { ListTable } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";
import { Visible } from "../parts/visible.tsx";
import { hrefOf } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { fieldsIn, NO_VALUES, WebhookFieldset } from "../webhooks/webhook-form.tsx";
import { WebhookState } from "../webhooks/webhook-state.tsx";
import { undeliveredSince } from "../webhooks/webhooks.ts";

export function WebhooksPage() {
  const { admin, environment, env } = useSession();
  const answer = useAnswer("webhooks", (signal) => admin.listWebhooks({ environment }, { signal }));
  const { value, isBusy, error, again } = answer;
  const create = (
    <DialogButton label="New webhook" icon={Plus} look="main">
      {(close) => <CreateWebhook onDone={again} onClose={close} />}
    </DialogButton>
  );
  return (
    <Page title="Webhooks" actions={create}>
      <section class="card">
        <ListTable
          list={{ items: value?.webhooks, isBusy, error, again }}
          none="There are no webhooks yet. A webhook sends the events of this environment to an HTTPS URL."
          create={create}
          caption="All webhooks"
          keyOf={({ id }) => id}
          columns={[
            {
              name: "Webhook",
              isHeading: true,
              of: ({ id, displayName }) => (
                <a href={hrefOf("webhook", { env, id })}>
                  <Visible text={displayName} /> <span class="id">{id}</span>
                </a>
              ),
            },
            { name: "State", of: (webhook) => <WebhookState webhook={webhook} /> },
            { name: "Undelivered since", of: (webhook) => <Time time={undeliveredSince(webhook)} /> },
            ...columnsFor(WebhookSchema, ["url", "event_types", "last_success_time"]),
          ]}
        />
        <CommandLine command="webhook list" />
      </section>
    </Page>
  );
}

/** Creates a webhook in a dialog. */
export function CreateWebhook({ onDone, onClose }: { readonly onDone: () => void; readonly onClose: () => void }) {
  const showSecret = useSecret();
  const { admin, environment } = useSession();
  const { values, field } = useFields(NO_VALUES);
  const { displayName, url, isOfAllTypes, eventTypes } = values;
  const create = async () => {
    const { webhook, secret } = await admin.createWebhook({ environment, ...fieldsIn(values) });
    showSecret({
      title: `The secret of the webhook ${displayName}`,
      token: secret,
      noun: "secret",
      lost: `The receiver verifies messages with this secret. The secret is not shown again. If you lose the secret, rotate the secret of the webhook ${webhook?.id}.`,
    });
    onDone();
    return `Created the webhook ${displayName}. The secret is shown only once.`;
  };
  return (
    <ChangeDialog
      title="New webhook"
      button="Create"
      command={{
        command: "webhook create",
        options: { name: displayName || "NAME", events: isOfAllTypes ? [] : eventTypes },
        args: [url.trim() || "URL"],
      }}
      isUnsaved={displayName !== "" || url !== ""}
      onConfirm={create}
      onClose={onClose}
    >
      <WebhookFieldset field={field} />
    </ChangeDialog>
  );
}
