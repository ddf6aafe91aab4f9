import { useState } from "preact/hooks";
import { WebhookSchema } from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { Form } from "../parts/field.tsx";
import { columnsFor } from "../parts/message.tsx";
import { Page, Section, useSecret } from "../parts/page.tsx";
import { ListTable } from "../parts/table.tsx";
import { hrefOf } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { fieldsIn, NO_VALUES, WebhookFieldset } from "../webhooks/webhook-form.tsx";
import { stateText, undeliveredSince } from "../webhooks/webhooks.ts";
import { timeText } from "../words.ts";

/** The webhooks of an environment. */
export function WebhooksPage() {
  return (
    <Page title="Webhooks">
      <All />
    </Page>
  );
}

function All() {
  const { admin, environment, env } = useSession();
  const answer = useAnswer("webhooks", (signal) => admin.listWebhooks({ environment }, { signal }));
  const { value, isBusy, error, again } = answer;
  return (
    <>
      <ListTable
        list={{ items: value?.webhooks, isBusy, error, again }}
        none="There are no webhooks yet. A webhook receives the events of this environment by HTTPS."
        caption="All webhooks"
        keyOf={({ id }) => id}
        columns={[
          {
            name: "Webhook",
            isHeading: true,
            of: ({ id, displayName }) => (
              <a href={hrefOf("webhook", { env, id })}>
                {displayName} <span class="id">{id}</span>
              </a>
            ),
          },
          { name: "State", of: stateText },
          { name: "Undelivered since", of: (webhook) => timeText(undeliveredSince(webhook)) },
          ...columnsFor(WebhookSchema, ["url", "event_types", "last_success_time"]),
        ]}
      />
      <CommandLine command="webhook list" env={env} />
      <Create onDone={again} />
    </>
  );
}

function Create({ onDone }: { readonly onDone: () => void }) {
  const showSecret = useSecret();
  const { admin, environment, env } = useSession();
  const [values, setValues] = useState(NO_VALUES);
  const { displayName, url, isOfAllTypes, eventTypes } = values;
  const create = async () => {
    const { webhook, secret } = await admin.createWebhook({ environment, ...fieldsIn(values) });
    setValues(NO_VALUES);
    showSecret({
      title: `The secret of the webhook ${displayName}`,
      token: secret,
      noun: "secret",
      lost: `The receiver verifies messages with it. It is not shown again. If it is lost, rotate the secret of ${webhook?.id}.`,
    });
    onDone();
    return `Created the webhook ${displayName}. Its secret is shown only once.`;
  };
  return (
    <Section title="Create a webhook">
      <Form label="Create a webhook" submit="Create" isUnsaved={displayName !== "" || url !== ""} act={create}>
        <WebhookFieldset values={values} onValues={setValues} />
      </Form>
      <CommandLine
        command="webhook create"
        options={{ name: displayName || "NAME", events: isOfAllTypes ? [] : eventTypes }}
        args={[url.trim() || "URL"]}
        env={env}
      />
    </Section>
  );
}
