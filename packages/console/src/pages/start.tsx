import { CircleCheck, CircleDashed, Plus } from "lucide-preact";
import type { ComponentChildren } from "preact";
import { WebhookState as State } from "../../../../gen/usergroup/admin/v1/webhook_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { useAnswer } from "../parts/calls.ts";
import { DialogButton } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Page } from "../parts/page.tsx";
import { Snippets } from "../parts/snippets.tsx";
import { Skeleton } from "../parts/table.tsx";
import { Id } from "../parts/visible.tsx";
import { useWatched } from "../parts/watch.ts";
import { go, hrefOf } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { readApiTokens } from "../tokens/parts.tsx";
import { CreateApiToken } from "./api-tokens.tsx";
import { CreateEnvironment } from "./create-environment.tsx";
import { groupPrograms, sessionPrograms } from "./programs.ts";
import { CreateWebhook } from "./webhooks.tsx";

/** The pause between two checks of the steps, in milliseconds. */
const CHECK_MS = 2000;

/** Returns the state of the resources that the steps create. The state is empty if no environment is chosen. */
function useProgress() {
  const { admin, caller, environment } = useSession();
  return useWatched(
    "steps",
    async (signal) => {
      if (!environment) return {};
      const [tokens, { userGroups }, { signingKeys }, { webhooks }] = await Promise.all([
        readApiTokens(admin, { environment }, signal),
        admin.listUserGroups({ environment, pageSize: 1 }, { signal }),
        admin.listSigningKeys({ environment }, { signal }),
        admin.listWebhooks({ environment }, { signal }),
      ]);
      // The API token of the signed-in user does not count, because the back end needs an API token of its own.
      const others = tokens.filter(({ id }) => id !== caller.apiTokenId);
      return {
        hasToken: others.length > 0,
        isTokenUsed: others.some(({ lastUseTime }) => lastUseTime !== undefined),
        group: userGroups[0]?.providedId,
        // The first viewer session creates the signing keys.
        hasSession: signingKeys.length > 0,
        webhook: webhooks.find(({ state }) => state === State.ENABLED)?.id ?? webhooks[0]?.id,
        isDelivered: webhooks.some(({ lastSuccessTime }) => lastSuccessTime !== undefined),
      };
    },
    () => CHECK_MS,
  );
}

/** Guides the user through the first steps, and checks each step. */
export function StartPage() {
  const { isRoot, environment, env } = useSession();
  const { value, error } = useProgress();
  return (
    <Page title="Get started" beside={<p>Do these steps once. The page checks each step every two seconds.</p>}>
      <FailureBox error={error} isRead />
      {!value && error === undefined && <Skeleton />}
      {value && (
        <ol class="steps">
          <Step
            title="Create an environment"
            done={environment && `The environment ${formatEnvironmentName(environment)} exists.`}
            waiting={isRoot ? "Create an environment, or choose one in the side bar." : ""}
          >
            <p>
              An environment contains user groups and API tokens. Use one environment for production, and another
              environment for tests.
            </p>
            {isRoot && (
              <DialogButton label="New environment" icon={Plus}>
                {(close) => <CreateEnvironment onDone={(name) => go(hrefOf("start", { env: name }))} onClose={close} />}
              </DialogButton>
            )}
          </Step>
          {environment && (
            <>
              <Step
                title="Create an API token for your back end"
                done={
                  value.hasToken &&
                  (value.isTokenUsed
                    ? "The service has accepted this token."
                    : "The API token exists, but no back end has used it.")
                }
                waiting="No API token exists."
              >
                <p>
                  Choose the role manage. Then store the token where your back end runs. The programs of the next steps
                  read the token from the environment variable <code>API_TOKEN</code>.
                </p>
                <DialogButton label="New API token" icon={Plus}>
                  {(close) => <CreateApiToken onMade={() => {}} onClose={close} />}
                </DialogButton>
              </Step>
              <Step
                title="Create a user group"
                done={
                  value.group !== undefined && (
                    <>
                      The user group <Id id={value.group} href={hrefOf("group", { env, id: value.group })} /> exists.
                    </>
                  )
                }
                waiting="No user group exists."
              >
                <p>
                  A user group is one of your customers. Your back end creates the group with the id of the customer.
                </p>
                <Snippets label="Create a user group" programs={groupPrograms("acme")} />
              </Step>
              <Step
                title="Create a viewer session"
                done={value.hasSession && "A viewer session was created."}
                waiting="No viewer session was created."
              >
                <p>
                  A viewer session is for one person who is logged in. Give your page the session, and never a token.
                </p>
                <Snippets label="Create a viewer session" programs={sessionPrograms(value.group ?? "acme")} />
              </Step>
              <Step
                title="Receive events with a webhook"
                done={value.isDelivered && "A message was delivered."}
                waiting={value.webhook ? "The webhook exists, but has delivered nothing." : "No webhook exists."}
              >
                <p>The service sends each change to an HTTPS URL of your back end.</p>
                {value.webhook ? (
                  <a href={hrefOf("webhook", { env, id: value.webhook })}>Send a test</a>
                ) : (
                  <DialogButton label="New webhook" icon={Plus}>
                    {(close) => <CreateWebhook onDone={() => {}} onClose={close} />}
                  </DialogButton>
                )}
              </Step>
            </>
          )}
        </ol>
      )}
    </Page>
  );
}

/** @param done the text that replaces `waiting` when the step is done. `done` is falsy until then */
function Step({
  title,
  done,
  waiting,
  children,
}: {
  readonly title: string;
  readonly done: ComponentChildren;
  readonly waiting: string;
  readonly children: ComponentChildren;
}) {
  const Icon = done ? CircleCheck : CircleDashed;
  return (
    <li class={done ? "card done" : "card"}>
      <div class="card-heading">
        <h2>{title}</h2>
        <p class="check" role="status">
          <Icon aria-hidden />
          <span>{done || waiting}</span>
        </p>
      </div>
      {children}
    </li>
  );
}

/**
 * `Invitation` shows nothing if at least this number of environments exists. The service itself creates up to two
 * environments. If more environments exist, a user has created an environment and needs no invitation.
 */
const MANY = 3;

/** Shows a link to the first steps if no environment has a user group. */
export function Invitation() {
  const { admin, isRoot } = useSession();
  const { value } = useAnswer("first steps", async (signal) => {
    const { environments } = isRoot
      ? await admin.listEnvironments({ pageSize: MANY }, { signal })
      : { environments: [undefined] };
    if (environments.length === MANY) return undefined;
    const names = environments.map((each) => each && { name: each.name, tag: each.tag });
    const groups = names.map((environment) => admin.listUserGroups({ environment, pageSize: 1 }, { signal }));
    if ((await Promise.all(groups)).some(({ userGroups }) => userGroups.length > 0)) return undefined;
    return { env: names[0] && formatEnvironmentName(names[0]) };
  });
  if (!value) return null;
  return (
    <section class="card">
      <div class="card-heading">
        <div>
          <h2>Get started</h2>
          <p>There are no user groups yet. Five steps lead to the first user group and the first webhook.</p>
        </div>
        <a class="button" href={hrefOf("start", { env: value.env })}>
          Show the steps
        </a>
      </div>
    </section>
  );
}
