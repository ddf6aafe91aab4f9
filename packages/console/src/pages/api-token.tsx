import type { Duration } from "@bufbuild/protobuf/wkt";
import { Ban, Pencil, RefreshCw } from "lucide-preact";
import { useState } from "preact/hooks";
import { type ApiToken, ApiTokenSchema } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import { timeIn } from "../../../operator/src/input.ts";
import { timeText } from "../../../operator/src/times.ts";
import { countText } from "../../../operator/src/words.ts";
import { useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ChangeButton, ChangeDialog, type Closable, DialogButton } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { CheckField, requireChanges, TextField, useFields } from "../parts/field.tsx";
import { MessageFacts } from "../parts/message.tsx";
import { Links, Page, useSecret } from "../parts/page.tsx";
import { RotationDialog } from "../parts/rotation.tsx";
import { Skeleton } from "../parts/table.tsx";
import { go, hrefOf, type Params } from "../routes.ts";
import { signOut, useSession } from "../session/session.ts";
import { LeakNote, readApiTokens } from "../tokens/parts.tsx";

interface Acting {
  readonly apiToken: ApiToken;
  readonly again: () => void;
}

/** Shows an API token, and the forms that change the token. */
export function ApiTokenPage({ params }: { readonly params: Params }) {
  const id = params["id"] ?? "";
  const { admin, caller, environment, env } = useSession();
  // The API has no call that reads one API token by its id, so the page reads all API tokens.
  const answer = useAnswer(`token ${id}`, (signal) => readApiTokens(admin, { environment }, signal));
  const { again } = answer;
  const apiToken = answer.value?.find((each) => each.id === id);
  const acting = apiToken && { apiToken, again };
  return (
    <Page
      title="API token"
      detail={id}
      beside={
        <Links>
          <a href={hrefOf("tokens", { env })}>All API tokens</a>
          <a href={hrefOf("audit", { env, actor: id })}>Its audit events</a>
        </Links>
      }
      actions={
        acting && (
          <>
            <DialogButton label="Edit" icon={Pencil}>
              {(close) => <Update {...acting} onClose={close} />}
            </DialogButton>
            <DialogButton label="Rotate" icon={RefreshCw}>
              {(close) => <Rotate {...acting} onClose={close} />}
            </DialogButton>
            <Revoke {...acting} />
          </>
        )
      }
    >
      <FailureBox error={answer.error} again={again} />
      {!answer.value && answer.isBusy && <Skeleton />}
      {answer.value && !apiToken && (
        <p class="note">
          No API token of this environment has this id. The API token may have been revoked, may have expired, or may be
          defined in the setting API_TOKENS.
        </p>
      )}
      {acting && (
        <>
          {id === caller.apiTokenId && (
            <p class="note">
              You are signed in with this API token. After you rotate or revoke the API token, sign in again.
            </p>
          )}
          <section class="card">
            <MessageFacts schema={ApiTokenSchema} message={acting.apiToken} />
            <CommandLine command="token list" />
          </section>
        </>
      )}
    </Page>
  );
}

const NEVER = "never";

function Update({ apiToken, again, onClose }: Acting & Closable) {
  const { admin, environment } = useSession();
  const { id } = apiToken;
  const stored = { name: apiToken.displayName, expires: timeText(apiToken.expireTime) ?? NEVER };
  const { values, changed, field } = useFields(stored);
  const { name, expires } = values;
  const isRenamed = changed.includes("name");
  const isMoved = changed.includes("expires");
  const update = async () => {
    requireChanges(changed);
    const isEndless = expires.trim() === NEVER || expires.trim() === "";
    await admin.updateApiToken({
      environment,
      apiTokenId: id,
      displayName: name,
      expireTime: isEndless ? undefined : timeIn("Expires", expires, 1),
      updateMask: { paths: [...(isRenamed ? ["display_name"] : []), ...(isMoved ? ["expire_time"] : [])] },
    });
    again();
    return `Saved the API token ${id}.`;
  };
  const options = {
    name: isRenamed ? name : undefined,
    expires: isMoved ? expires.trim().replace(" ", "T") || NEVER : undefined,
  };
  return (
    <ChangeDialog
      title="Edit the API token"
      button="Save"
      command={{ command: "token update", options: changed.length > 0 ? options : { expires: "90d" }, args: [id] }}
      isUnsaved={changed.length > 0}
      onConfirm={update}
      onClose={onClose}
    >
      <TextField label="Name" {...field("name")} />
      <TextField
        label="Expires"
        hint="A time, a date, a duration such as 90d from now, or never."
        {...field("expires")}
      />
    </ChangeDialog>
  );
}

function Rotate({ apiToken: { id }, again, onClose }: Acting & Closable) {
  const showSecret = useSecret();
  const { admin, environment } = useSession();
  const rotate = async (previousTokenTtl: Duration) => {
    const { token } = await admin.rotateApiToken({ environment, apiTokenId: id, previousTokenTtl });
    showSecret({
      title: `The new secret of the API token ${id}`,
      token,
      lost: "The service does not store the secret. If you lose the secret, rotate the API token again.",
    });
    again();
    return `Rotated the API token ${id}. The new secret is shown only once.`;
  };
  return (
    <RotationDialog
      title="Rotate the API token"
      id={id}
      grace="0s"
      consequence={`This revokes the old secret of the API token ${id} at once. Back ends that use the old secret can no longer call the service.`}
      command="token rotate"
      onRotate={rotate}
      onClose={onClose}
    />
  );
}

function Revoke({ apiToken: { id, displayName, role } }: Acting) {
  const { admin, caller, environment, env } = useSession();
  const [issued, setIssued] = useState(false);
  const isOwn = id === caller.apiTokenId;
  const revoke = async () => {
    const { revokedCount } = await admin.revokeApiToken({ environment, apiTokenId: id, revokeIssued: issued });
    const done = `Revoked ${countText(revokedCount, "API token")}.`;
    if (isOwn) {
      signOut(`${done} You are signed out, because you were signed in with ${id}.`);
      return undefined;
    }
    go(hrefOf("tokens", { env }), true);
    return done;
  };
  return (
    <ChangeButton
      icon={Ban}
      label="Revoke"
      title="Revoke an API token"
      id={id}
      consequence={`This permanently revokes the API token ${id} (${displayName}). Back ends that use this API token can no longer call the service.${isOwn ? " You are signed in with this API token." : ""}`}
      button="Revoke it"
      command={{ command: "token revoke", options: { issued }, args: [id] }}
      onConfirm={revoke}
    >
      <LeakNote role={role} env={env} />
      <CheckField
        label="Also revoke all API tokens that this API token created or rotated, directly or indirectly"
        value={issued}
        onValue={setIssued}
      />
    </ChangeButton>
  );
}
