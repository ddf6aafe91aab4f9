import { useState } from "preact/hooks";
import type { ApiToken } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import { useAction, useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { Secret } from "../parts/copy.tsx";
import { ConfirmDialog } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { CheckField, Form, TextField } from "../parts/field.tsx";
import { NotOffered, Page, Section } from "../parts/page.tsx";
import { go, hrefOf } from "../routes.ts";
import { NotRight } from "../session/failures.ts";
import { environmentOf, environmentParamOf, type Session, signOut } from "../session/session.ts";
import { ApiTokenFacts, readApiTokens } from "../tokens/parts.tsx";
import { parseWhen } from "../when.ts";
import { countText, parseDuration, timeText } from "../words.ts";
import type { PageOfConsole, PageProps } from "./page.ts";

/** One API token: its facts, and what can be done with it. */
export const apiTokenPage: PageOfConsole = { path: "token", isOfEnvironment: true, show: OneApiToken };

/** The properties of the forms that act on an API token. */
interface Acting {
  readonly session: Session;
  readonly apiToken: ApiToken;
  /** Reads the API token again. */
  readonly again: () => void;
}

function OneApiToken({ session, params }: PageProps) {
  const id = params["id"] ?? "";
  const [token, setToken] = useState<string>();
  const env = environmentParamOf(session);
  // No call reads one API token by its id.
  const answer = useAnswer(`token ${id}`, (signal) =>
    readApiTokens(session, { environment: environmentOf(session) }, signal),
  );
  const { again } = answer;
  const apiToken = answer.value?.find((each) => each.id === id);
  const acting = apiToken && { session, apiToken, again };
  return (
    <Page title="API token" detail={id}>
      <ul class="links">
        <li>
          <a href={hrefOf("tokens", env)}>All API tokens</a>
        </li>
        <li>
          <a href={hrefOf("audit", { ...env, actor: id })}>What was done with it</a>
        </li>
      </ul>
      {token !== undefined && (
        <Secret
          title={`The new text of the API token ${id}`}
          token={token}
          lost="It is not stored. Where it is lost, another rotation makes another one."
          onClose={() => setToken(undefined)}
        />
      )}
      <FailureBox error={answer.error} again={again} />
      {!answer.value && answer.isBusy && <p>Reading …</p>}
      {answer.value && !apiToken && (
        <NotOffered>
          There is no API token of this id here: it was revoked, has expired, or is one of the settings.
        </NotOffered>
      )}
      {acting && (
        <>
          {id === session.caller.apiTokenId && (
            <p class="note">You are signed in with this one: once its text has ended, sign in anew.</p>
          )}
          <ApiTokenFacts apiToken={acting.apiToken} />
          <CommandLine command="token list" {...env} />
          <Update {...acting} />
          <Rotate {...acting} onToken={setToken} />
          <Revoke {...acting} />
        </>
      )}
    </Page>
  );
}

/** The text in the field for the end of an API token that has none. */
const NEVER = "never";

/** Changes the name and the end. A field that was not touched follows the API token. */
function Update({ session, apiToken, again }: Acting) {
  const { id } = apiToken;
  const present = { name: apiToken.displayName, expires: timeText(apiToken.expireTime, NEVER) };
  const [touched, setTouched] = useState<Partial<typeof present>>({});
  const { name, expires } = { ...present, ...touched };
  const isRenamed = name !== present.name;
  const isMoved = expires.trim() !== present.expires;
  const updating = useAction(async () => {
    if (!isRenamed && !isMoved) throw new NotRight("Nothing is changed: both are as they were.");
    const isEndless = expires.trim() === NEVER || expires.trim() === "";
    await session.admin.updateApiToken({
      environment: environmentOf(session),
      apiTokenId: id,
      displayName: name,
      expireTime: isEndless ? undefined : parseWhen("Expires", expires, 1),
      updateMask: { paths: [...(isRenamed ? ["display_name"] : []), ...(isMoved ? ["expire_time"] : [])] },
    });
    setTouched({});
    again();
    return `The API token ${id} is changed.`;
  });
  const options = [
    ...(isRenamed ? ["--name", name] : []),
    ...(isMoved ? ["--expires", expires.trim().replace(" ", "T") || NEVER] : []),
  ];
  return (
    <Section title="Change">
      <Form label="Change" submit="Save" action={updating} onSubmit={() => void updating.run()}>
        <TextField
          label="Name"
          value={name}
          onValue={(value) => setTouched({ ...touched, name: value })}
          maxLength={128}
        />
        <TextField
          label="Expires"
          hint="A time, a date, a duration from now such as 90d, or never."
          value={expires}
          onValue={(value) => setTouched({ ...touched, expires: value })}
        />
      </Form>
      <CommandLine
        command="token update"
        options={options.length > 0 ? options : ["--expires", "90d"]}
        args={[id]}
        {...environmentParamOf(session)}
      />
    </Section>
  );
}

/** The longest grace, in seconds. */
const MAX_GRACE = 30 * 86_400;

function Rotate({ session, apiToken: { id }, again, onToken }: Acting & { readonly onToken: (token: string) => void }) {
  const [grace, setGrace] = useState("");
  const [fault, setFault] = useState<string>();
  const rotating = useAction(async (seconds: number) => {
    const { token } = await session.admin.rotateApiToken({
      environment: environmentOf(session),
      apiTokenId: id,
      previousTokenTtl: { seconds: BigInt(seconds) },
    });
    onToken(token);
    again();
    return `The API token ${id} has a new text, which is shown this once.`;
  });
  const submit = () => {
    const seconds = grace.trim() === "" ? 0 : parseDuration(grace);
    const isRight = seconds !== undefined && seconds <= MAX_GRACE;
    setFault(isRight ? undefined : "A grace is written 30s, 5m, 1h or 30d, which is the longest.");
    if (isRight) void rotating.run(seconds);
  };
  return (
    <Section title="Rotate">
      <Form label="Rotate" submit="Rotate" action={rotating} onSubmit={submit}>
        <TextField
          label="Grace"
          hint="How long the text before stays valid, such as 1h, for back ends that have it. Nothing: it ends at once."
          value={grace}
          onValue={setGrace}
          fault={fault}
        />
      </Form>
      <CommandLine
        command="token rotate"
        options={grace.trim() ? ["--grace", grace.trim()] : []}
        args={[id]}
        {...environmentParamOf(session)}
      />
    </Section>
  );
}

function Revoke({ session, apiToken: { id, displayName } }: Acting) {
  const [isEnding, setEnding] = useState(false);
  const [issued, setIssued] = useState(false);
  const env = environmentParamOf(session);
  const isOwn = id === session.caller.apiTokenId;
  const revoke = async () => {
    const { revokedCount } = await session.admin.revokeApiToken({
      environment: environmentOf(session),
      apiTokenId: id,
      revokeIssued: issued,
    });
    const done = `${countText(revokedCount, "API token")} ended.`;
    if (isOwn) signOut(`${done} You were signed in with ${id}, which is among them.`);
    else go(hrefOf("tokens", env), true);
    return done;
  };
  return (
    <Section title="Revoke">
      <p class="buttons">
        <button type="button" onClick={() => setEnding(true)}>
          Revoke the API token …
        </button>
      </p>
      {isEnding && (
        <ConfirmDialog
          title="Revoke an API token"
          id={id}
          consequence={`This ends the API token ${id} (${displayName}) everywhere, for good: whoever has it can call no longer.${isOwn ? " You are signed in with it." : ""}`}
          button="Revoke it"
          command={{ command: "token revoke", options: issued ? ["--issued"] : [], args: [id], ...env }}
          onConfirm={revoke}
          onClose={() => setEnding(false)}
        >
          <CheckField
            label="And all that it created or rotated, those that these did, and so on"
            value={issued}
            onValue={setIssued}
          />
        </ConfirmDialog>
      )}
    </Section>
  );
}
