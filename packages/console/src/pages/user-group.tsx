import { type Duration, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { Ban, Pause, Pencil, Play, RefreshCw, Trash2 } from "lucide-preact";
import { useRef, useState } from "preact/hooks";
import { type UserGroupInfo, UserGroupInfoSchema } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { timeIn } from "../../../operator/src/input.ts";
import { durationText } from "../../../operator/src/times.ts";
import { useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { CopyButton } from "../parts/copy.tsx";
import { ChangeButton, ChangeDialog, type Closable, DialogButton } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { requireChanges, TextField, useFields } from "../parts/field.tsx";
import { GroupState, MessageFacts } from "../parts/message.tsx";
import { Links, Page, Section, useSecret } from "../parts/page.tsx";
import { RotationDialog } from "../parts/rotation.tsx";
import { Snippets } from "../parts/snippets.tsx";
import { Facts, Skeleton } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";
import { Visible } from "../parts/visible.tsx";
import { go, hrefOf, type Params } from "../routes.ts";
import { newRequestId } from "../session/request-id.ts";
import { useSession } from "../session/session.ts";
import { EnvironmentTokenNote, FIELD_NAMES, fieldsIn, GroupFieldset, optionsFor, textsOf } from "./group-form.tsx";
import { sessionPrograms } from "./programs.ts";

/** Shows a user group with its events, and the dialogs that change the group. */
export function UserGroupPage({ params }: { readonly params: Params }) {
  const { admin, isRoot, environment, env } = useSession();
  const id = params["id"] ?? "";
  const answer = useAnswer(id, async (signal) => {
    const { userGroup } = await admin.lookupUserGroup({ environment, userGroupId: id }, { signal });
    return userGroup;
  });
  const { value: group, again } = answer;
  return (
    <Page
      title="User group"
      detail={id}
      beside={
        <Links>
          {group && <GroupState {...group} />}
          <a href={hrefOf("groups", { env })}>All user groups</a>
        </Links>
      }
      actions={
        group && (
          <>
            <CopyButton text={id} what="the id" />
            {!isRoot && (
              <>
                <DialogButton label="Edit" icon={Pencil}>
                  {(close) => <Change group={group} again={again} onClose={close} />}
                </DialogButton>
                <DialogButton label="Rotate the token" icon={RefreshCw}>
                  {(close) => <Rotate group={group} again={again} onClose={close} />}
                </DialogButton>
              </>
            )}
            <DialogButton label={group.suspension ? "Change its suspension" : "Suspend"} icon={Pause}>
              {(close) => <Suspend group={group} again={again} onClose={close} />}
            </DialogButton>
            {group.suspension && <Resume group={group} again={again} />}
            <End group={group} again={again} />
          </>
        )
      }
    >
      <FailureBox error={answer.error} again={again} />
      {!group && answer.isBusy && <Skeleton />}
      {group && (
        <div class="board">
          <div>
            <Section title="Details">
              <MessageFacts schema={UserGroupInfoSchema} message={group} />
              <CommandLine command="group get" args={[id]} />
              {isRoot && <EnvironmentTokenNote what="change a user group or rotate its token" />}
            </Section>
          </div>
          <div>
            <Section
              title="Viewer sessions"
              actions={<a href={hrefOf("sessions", { env, group: id })}>Revoke its viewer sessions</a>}
            >
              <p>
                Your back end creates a session for each viewer. Give your page the session, and never a token. The
                program reads an API token of role manage from the environment variable <code>API_TOKEN</code>.
              </p>
              <Snippets label="Create a viewer session" programs={sessionPrograms(id)} />
            </Section>
            <Timeline group={group} />
          </div>
        </div>
      )}
    </Page>
  );
}

/** The maximum number of events in the timeline. */
const EVENTS = 20;

/** Shows the last audit events of a user group. Reads the events again when the group changes. */
function Timeline({ group: { providedId: id, etag } }: { readonly group: UserGroupInfo }) {
  const { admin, environment, env } = useSession();
  const { value, error, again } = useAnswer(`events ${id} ${etag}`, async (signal) => {
    const request = { environment, userGroupId: id, pageSize: EVENTS };
    return (await admin.listAuditEvents(request, { signal })).auditEvents;
  });
  return (
    <Section title="Timeline" actions={<a href={hrefOf("audit", { env, group: id })}>Its audit events</a>}>
      <FailureBox error={error} again={again} />
      {!value && error === undefined && <Skeleton />}
      {value?.length === 0 && (
        <p>There are no events. The service deletes events that are older than AUDIT_RETENTION.</p>
      )}
      <ol class="timeline">
        {value?.map(({ id: eventId, method, changedFields, createTime, actorId, actorDisplayName }) => (
          <li key={eventId}>
            <strong>{method}</strong> {changedFields.join(", ")}
            <br />
            <span class="small">
              <Time time={createTime} /> by <Visible text={actorDisplayName || actorId} />
            </span>
          </li>
        ))}
      </ol>
    </Section>
  );
}

interface Acting {
  readonly group: UserGroupInfo;
  readonly again: () => Promise<void>;
}

/** Edits the fields of a group. If another user has changed the group, the first attempt to save shows a warning. */
function Change({ group, again, onClose }: Acting & Closable) {
  const { userGroups } = useSession();
  const present = textsOf(group);
  const { values: texts, changed: paths, field } = useFields(present);
  const [initial] = useState(present);
  /** The etag that the next attempt to save sends. If undefined, the attempt sends the latest etag of the group. */
  const [checked, setChecked] = useState<string | undefined>(group.etag);
  const changedByOthers = FIELD_NAMES.filter((field) => present[field] !== initial[field]);
  const { providedId: id, etag } = group;
  const change = async () => {
    requireChanges(paths);
    const request = { userGroupId: id, ...fieldsIn(texts), updateMask: { paths }, etag: checked ?? etag };
    try {
      await userGroups.updateUserGroup(request);
    } catch (error) {
      // `Aborted` means that another user has changed the group. The page reads the new values before the next attempt.
      if (ConnectError.from(error).code === Code.Aborted) {
        await again();
        setChecked(undefined);
      }
      throw error;
    }
    await again();
    return `Saved ${paths.join(", ")} of the user group ${id}.`;
  };
  const cleared = paths.filter((field) => texts[field]?.trim() === "");
  const options = { ...optionsFor(texts, paths), clear: cleared, etag };
  return (
    <ChangeDialog
      title="Edit the user group"
      button="Save"
      command={{ command: "group update", args: [id], options: paths.length > 0 ? options : { name: "TEXT" } }}
      isUnsaved={paths.length > 0}
      onConfirm={change}
      onClose={onClose}
    >
      <GroupFieldset field={field} />
      {changedByOthers.length > 0 && (
        <div class="note">
          <p>Somebody else has changed these values since you opened this dialog. The new values are:</p>
          <Facts facts={changedByOthers.map((field) => [field, <pre>{present[field]}</pre>])} />
        </div>
      )}
      <p class="small">{paths.length === 0 ? "No unsaved changes." : `Unsaved changes: ${paths.join(", ")}.`}</p>
    </ChangeDialog>
  );
}

function Rotate({ group: { providedId: id }, again, onClose }: Acting & Closable) {
  const showSecret = useSecret();
  const { caller, userGroups } = useSession();
  // A retry sends the same request id, so the service rotates the token only once.
  const [requestId] = useState(newRequestId);
  const rotate = async (previousTokenTtl: Duration) => {
    const { userGroup } = await userGroups.rotateUserGroupToken({
      group: { case: "userGroupId", value: id },
      previousTokenTtl,
      requestId,
    });
    if (userGroup?.suspension) {
      await again();
      return `Rotated the token of the user group ${id}. After the suspension, ugs group create returns the new token.`;
    }
    const token = userGroup?.token ?? "";
    showSecret({
      title: `The new token of the user group ${id}`,
      token,
      lost: "If you lose the token, rotate the token again.",
    });
    await again();
    return `Rotated the token of the user group ${id}.`;
  };
  return (
    <RotationDialog
      title="Rotate the token"
      id={id}
      grace={durationText(caller.rotationGrace ? durationMs(caller.rotationGrace) : 0)}
      consequence={`This revokes the old token of the user group ${id} at once. Dashboards that use the old token show nothing until they have the new token.`}
      command="group rotate"
      onRotate={rotate}
      onClose={onClose}
    />
  );
}

const UNTIL = "Resume it at";

/** Suspends a user group, or changes the suspension of the group. */
function Suspend({ group: { providedId: id }, again, onClose }: Acting & Closable) {
  const { admin, environment } = useSession();
  const { values, field } = useFields({ reason: "", message: "", until: "" });
  const { reason, message } = values;
  const until = values.until.trim();
  const suspend = async () => {
    const time = until === "" ? undefined : timeIn(UNTIL, until, 1);
    await admin.suspendUserGroup({ environment, userGroupId: id, reason, message, until: time });
    await again();
    return `Suspended the user group ${id}.`;
  };
  return (
    <ChangeDialog
      title="Suspend a user group"
      id={id}
      consequence={`Dashboards of the user group ${id} show nothing during the suspension. The token and all values of the group stay as they are.`}
      button="Suspend it"
      command={{ command: "group suspend", options: { reason, message, until }, args: [id] }}
      onConfirm={suspend}
      onClose={onClose}
    >
      <TextField label="Reason" hint="For operators. Viewers do not see the reason." {...field("reason")} />
      <TextField label="Message" hint="The page can show this message to viewers." {...field("message")} />
      <TextField
        label={UNTIL}
        hint="A time, a date, or a duration such as 7d from now. If empty, the suspension lasts until somebody resumes the group."
        {...field("until")}
      />
    </ChangeDialog>
  );
}

function Resume({ group: { providedId: id }, again }: Acting) {
  const { admin, environment } = useSession();
  const resume = async () => {
    await admin.resumeUserGroup({ environment, userGroupId: id });
    await again();
    return `Resumed the user group ${id}.`;
  };
  return (
    <ChangeButton
      icon={Play}
      label="Resume"
      title="Resume a user group"
      id={id}
      consequence={`Dashboards of the user group ${id} work again, with the same token and values.`}
      button="Resume it"
      command={{ command: "group resume", args: [id] }}
      onConfirm={resume}
    />
  );
}

function End({ group, again }: Acting) {
  const { admin, environment, env } = useSession();
  const requestId = useRef(newRequestId());
  const { providedId: id, etag } = group;
  const revoke = async () => {
    await admin.revokeUserGroupTokens({ environment, userGroupId: id, requestId: requestId.current });
    requestId.current = newRequestId();
    // The revocation has changed the etag of the group. The next change must send the new etag.
    await again();
    return `Revoked the tokens of the user group ${id}.`;
  };
  const remove = async () => {
    await admin.deleteUserGroup({ environment, userGroupId: id, etag });
    go(hrefOf("groups", { env }), true);
    return `Deleted the user group ${id}.`;
  };
  return (
    <>
      <ChangeButton
        icon={Ban}
        label="Revoke its tokens"
        title="Revoke the tokens of a user group"
        id={id}
        consequence={`This revokes all tokens of the user group ${id} immediately, even a token in its grace period. A dashboard with a revoked token shows nothing until it has a new token. To create a new token, rotate the token of the group, or run ugs group create.`}
        button="Revoke them"
        command={{ command: "group revoke", args: [id] }}
        onConfirm={revoke}
      />
      <ChangeButton
        icon={Trash2}
        label="Delete"
        title="Delete a user group"
        id={id}
        consequence={`This permanently deletes the user group ${id}, with its name, mapping and properties, and revokes its tokens.`}
        button="Delete it"
        command={{ command: "group delete", options: { etag }, args: [id] }}
        onConfirm={remove}
      />
    </>
  );
}
