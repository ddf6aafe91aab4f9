import { Plus } from "lucide-preact";
import { useState } from "preact/hooks";
import {
  type LookupApiTokenResponse,
  LookupApiTokenResponseSchema,
  LookupApiTokenResponse_Source as Source,
} from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ApiTokenSchema, RoleSchema } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { enumNames, enumValue } from "../../../operator/src/fields.ts";
import { InvalidInput, timeIn } from "../../../operator/src/input.ts";
import { useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ChangeDialog, DialogButton } from "../parts/dialog.tsx";
import { Form, SelectField, TextField, useFields } from "../parts/field.tsx";
import { columnsFor, MessageFacts } from "../parts/message.tsx";
import { Page, Section, useSecret } from "../parts/page.tsx";
import { ListTable } from "../parts/table.tsx";
import { Visible } from "../parts/visible.tsx";
import { go, hrefOf, type Params } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { inOrder, ORDERS, ROLES, summaryOf } from "../tokens/api-tokens.ts";
import { LeakNote, readApiTokens } from "../tokens/parts.tsx";

/** Lists the API tokens of an environment, and looks up leaked API tokens. The lookup needs no environment. */
export function ApiTokensPage({ params }: { readonly params: Params }) {
  const { environment } = useSession();
  if (environment) return <OfEnvironment params={params} />;
  return (
    <Page title="API tokens">
      <p class="note">
        ADMIN_TOKEN is valid in all environments. To list and create API tokens,{" "}
        <a href={hrefOf("environments")}>choose an environment</a>.
      </p>
      <Lookup />
    </Page>
  );
}

function OfEnvironment({ params }: { readonly params: Params }) {
  const { admin, environment, env } = useSession();
  const { order = "expires", role = "" } = params;
  const answer = useAnswer(`tokens ${role}`, (signal) =>
    readApiTokens(admin, { environment, role: enumValue(RoleSchema, role) }, signal),
  );
  const { value: tokens, isBusy, error, again } = answer;
  const lookThrough = (changed: { readonly [param: string]: string }) =>
    go(hrefOf("tokens", { env, order, role, ...changed }), true);
  const create = (
    <DialogButton label="New API token" icon={Plus} look="main">
      {(close) => <CreateApiToken onMade={again} onClose={close} />}
    </DialogButton>
  );
  return (
    <Page title="API tokens" actions={create}>
      <section class="card">
        <div class="columns">
          <SelectField
            label="Order"
            value={order}
            onValue={(value) => lookThrough({ order: value })}
            options={Object.entries(ORDERS).map(([value, { words }]) => [value, words])}
          />
          <SelectField
            label="Filter by role"
            value={role}
            onValue={(value) => lookThrough({ role: value })}
            options={[["", "all roles"], ...enumNames(RoleSchema).map((each) => [each, each] as const)]}
          />
        </div>
        {tokens && tokens.length > 0 && <p>{summaryOf(tokens)}</p>}
        <ListTable
          list={{ items: tokens && inOrder(tokens, order), isBusy, error, again }}
          none={`No API token${role && ` of role ${role}`} exists yet. Each of your back ends needs an API token.`}
          create={create}
          caption={role ? `API tokens of role ${role}` : "All API tokens"}
          keyOf={({ id }) => id}
          columns={[
            {
              name: "API token",
              isHeading: true,
              of: ({ id, displayName }) => (
                <a href={hrefOf("token", { env, id })}>
                  <Visible text={displayName} /> <span class="id">{id}</span>
                </a>
              ),
            },
            ...columnsFor(ApiTokenSchema, ["role", "expire_time", "last_use_time", "create_time"]),
          ]}
        />
        <CommandLine command="token list" options={{ role }} />
      </section>
      <Lookup />
    </Page>
  );
}

/** Creates an API token in a dialog. */
export function CreateApiToken({ onMade, onClose }: { readonly onMade: () => void; readonly onClose: () => void }) {
  const showSecret = useSecret();
  const { admin, environment } = useSession();
  const { values, field } = useFields({ name: "", role: "manage", expires: "" });
  const { name, role, expires } = values;
  const create = async () => {
    if (name.trim() === "")
      throw new InvalidInput("Give the API token a name, such as the name of the back end.", "Name");
    const { apiToken, token } = await admin.createApiToken({
      environment,
      displayName: name,
      role: enumValue(RoleSchema, role),
      expireTime: expires.trim() === "" ? undefined : timeIn("Expires", expires, 1),
    });
    showSecret({
      title: `The API token ${name}`,
      token,
      lost: `The service does not store the secret. If you lose the secret, rotate the API token ${apiToken?.id}.`,
    });
    onMade();
    return `Created the API token ${name}. The secret is shown only once.`;
  };
  return (
    <ChangeDialog
      title="New API token"
      button="Create"
      command={{ command: "token create", options: { name: name || "NAME", role, expires: expires.trim() } }}
      isUnsaved={name !== ""}
      onConfirm={create}
      onClose={onClose}
    >
      <TextField label="Name" hint="A name for people, such as the name of the back end." {...field("name")} />
      <SelectField
        label="Role"
        {...field("role")}
        options={enumNames(RoleSchema).map((each) => [each, ROLES[each] ? `${each}: may ${ROLES[each]}` : each])}
      />
      <TextField
        label="Expires"
        hint="A time, a date, or a duration such as 90d from now. If empty, the API token expires at the same time as the token that you signed in with."
        {...field("expires")}
      />
    </ChangeDialog>
  );
}

function Lookup() {
  const { admin, environment, env } = useSession();
  const [text, setText] = useState("");
  const [found, setFound] = useState<LookupApiTokenResponse>();
  const lookUp = async () => {
    setFound(undefined);
    const given = text.trim();
    if (given === "") throw new InvalidInput("Paste an API token, or its id.", "An API token, or its id");
    // If the text is the id of a listed API token, open the page of this token. Otherwise, send the text as a secret.
    const ids = environment ? await readApiTokens(admin, { environment }, new AbortController().signal) : [];
    if (ids.some(({ id }) => id === given)) {
      go(hrefOf("token", { env, id: given }));
      return `The API token ${given}`;
    }
    setFound(await admin.lookupApiToken({ token: given }));
    // The text may be a valid secret, so the page does not keep the text.
    setText("");
    return "Found the API token. The page no longer contains the pasted text.";
  };
  return (
    <Section title="Look up an API token">
      <Form label="Look up an API token" submit="Look up" isRead act={lookUp}>
        <TextField
          label="An API token, or its id"
          hint="Paste a leaked secret to find its API token. The lookup also finds API tokens in the settings of the service. The service does not log or store the secret."
          type="password"
          value={text}
          onValue={setText}
        />
      </Form>
      {found && <Found found={found} />}
      <CommandLine command="token lookup" env={undefined} />
    </Section>
  );
}

function Found({ found }: { readonly found: LookupApiTokenResponse }) {
  const { isRoot } = useSession();
  const { apiToken, environment, source } = found;
  const env = isRoot && environment ? formatEnvironmentName(environment) : undefined;
  return (
    <>
      <MessageFacts schema={LookupApiTokenResponseSchema} message={found} />
      {apiToken && source === Source.ISSUED ? (
        <p>
          <a href={hrefOf("token", { env, id: apiToken.id })}>Rotate or revoke {apiToken.id}</a>
        </p>
      ) : (
        <p class="note">
          Remove this API token from the settings of the service. The service reloads a changed settings file. If you
          change an environment variable, restart the service.
        </p>
      )}
      {apiToken && <LeakNote role={apiToken.role} env={env} />}
    </>
  );
}
