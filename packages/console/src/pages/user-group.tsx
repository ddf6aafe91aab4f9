import { Code, ConnectError } from "@connectrpc/connect";
import { useRef, useState } from "preact/hooks";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type UserGroupInfo, UserGroupInfoSchema } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { limitOf } from "../../../operator/src/fields.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { durationText } from "../../../operator/src/times.ts";
import { useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ConfirmButton } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Form, TextField } from "../parts/field.tsx";
import { MessageFacts, SuspendedBadge } from "../parts/message.tsx";
import { Page, Section, useSecret } from "../parts/page.tsx";
import { RotationForm } from "../parts/rotation.tsx";
import { go, hrefOf, type Params } from "../routes.ts";
import { newRequestId } from "../session/request-id.ts";
import { useSession } from "../session/session.ts";
import { timeIn } from "../words.ts";
import {
  FIELD_NAMES,
  fieldsIn,
  GroupFieldset,
  type GroupTexts,
  optionsFor,
  textsOf,
  WithEnvironmentToken,
} from "./group-form.tsx";

/** One user group: its facts, and the forms that change, rotate, revoke and delete it. */
export function UserGroupPage({ params }: { readonly params: Params }) {
  const { admin, environment, env } = useSession();
  const id = params["id"] ?? "";
  const answer = useAnswer(id, async (signal) => {
    const { userGroup } = await admin.lookupUserGroup({ environment, userGroupId: id }, { signal });
    return userGroup;
  });
  const group = answer.value;
  return (
    <Page title="User group" detail={id}>
      <ul class="links">
        <li>
          <a href={hrefOf("groups", { env })}>All user groups</a>
        </li>
        <li>
          <a href={hrefOf("audit", { env, group: id })}>Its audit events</a>
        </li>
        <li>
          <a href={hrefOf("sessions", { env, group: id })}>Revoke its viewer sessions</a>
        </li>
      </ul>
      <FailureBox error={answer.error} again={answer.again} />
      {group && (
        <>
          {group.suspension && (
            <p>
              <SuspendedBadge {...group} />
            </p>
          )}
          <MessageFacts schema={UserGroupInfoSchema} message={group} />
          <CommandLine command="group get" args={[id]} env={env} />
          <Section title="Change">
            <WithEnvironmentToken what="change a user group">
              <Change group={group} again={answer.again} />
            </WithEnvironmentToken>
          </Section>
          <Section title="Rotate the token">
            <WithEnvironmentToken what="rotate the token of a user group">
              <Rotate group={group} again={answer.again} />
            </WithEnvironmentToken>
          </Section>
          <Section title="Suspend or resume">
            <Suspend group={group} again={answer.again} />
          </Section>
          <Section title="Revoke or delete">
            <End group={group} again={answer.again} />
          </Section>
        </>
      )}
    </Page>
  );
}

/** The properties of the forms that act on a user group. */
interface Acting {
  readonly group: UserGroupInfo;
  /** Reads the user group again. */
  readonly again: () => Promise<void>;
}

/**
 * A form for the fields. An untouched field follows the group. A touched field keeps the typed text until it is saved. If
 * somebody else changed the field in the meantime, the form warns before it replaces that change.
 */
function Change({ group, again }: Acting) {
  const { userGroups } = useSession();
  const [touched, setTouched] = useState<GroupTexts>({});
  /** The fields' texts when they were first touched. */
  const [replaced, setReplaced] = useState<GroupTexts>({});
  const present = textsOf(group);
  const texts: GroupTexts = { ...present, ...touched };
  const paths = FIELD_NAMES.filter((field) => texts[field] !== present[field]);
  const id = group.providedId;
  const reread = () => {
    setReplaced({});
    return again();
  };
  const change = async () => {
    if (paths.length === 0) throw new InvalidInput("Nothing to save: no field was changed.");
    const others = paths.filter((field) => (replaced[field] ?? present[field]) !== present[field]);
    if (others.length > 0) {
      setReplaced(present);
      throw new InvalidInput(
        `Somebody else changed ${others.join(", ")} in the meantime. Check the new values above. Saving again replaces them.`,
      );
    }
    const fields = fieldsIn(texts);
    try {
      await userGroups.updateUserGroup({ userGroupId: id, ...fields, updateMask: { paths }, etag: group.etag });
    } catch (error) {
      // Somebody else changed the group: the page shows the new values.
      if (ConnectError.from(error).code === Code.Aborted) await reread();
      throw error;
    }
    setTouched({});
    await reread();
    return `Saved the user group ${id}: ${paths.join(", ")}.`;
  };
  const onText = (field: string, text: string) => {
    setTouched({ ...touched, [field]: text });
    setReplaced({ [field]: present[field] ?? "", ...replaced });
  };
  const cleared = paths.filter((field) => texts[field]?.trim() === "");
  const options = { ...optionsFor(texts, paths), clear: cleared, etag: group.etag };
  return (
    <>
      <Form label="Change" submit="Save" isUnsaved={paths.length > 0} act={change}>
        <GroupFieldset texts={texts} onText={onText} />
        <p class="small">{paths.length === 0 ? "No unsaved changes." : `Unsaved changes: ${paths.join(", ")}.`}</p>
      </Form>
      <CommandLine command="group update" args={[id]} options={paths.length > 0 ? options : { name: "TEXT" }} />
    </>
  );
}

function Rotate({ group: { providedId: id }, again }: Acting) {
  const showSecret = useSecret();
  const { caller, userGroups } = useSession();
  // A retry uses the same id, so the service rotates once.
  const requestId = useRef(newRequestId());
  const rotate = async (graceSeconds: number) => {
    const { userGroup } = await userGroups.rotateUserGroupToken({
      group: { case: "userGroupId", value: id },
      previousTokenTtl: { seconds: BigInt(graceSeconds) },
      requestId: requestId.current,
    });
    requestId.current = newRequestId();
    if (userGroup?.suspension) {
      await again();
      return `Rotated the token of the user group ${id}. The token is shown only after the suspension: run ugs group create.`;
    }
    const token = userGroup?.token ?? "";
    showSecret({
      title: `The new token of the user group ${id}`,
      token,
      lost: "If it is lost, rotate the token again.",
    });
    await again();
    return `Rotated the token of the user group ${id}.`;
  };
  return (
    <RotationForm
      label="Rotate the token"
      id={id}
      grace={durationText(Number(caller.rotationGrace?.seconds ?? 0n) * 1000)}
      consequence={`This revokes the old token of the user group ${id} at once. Dashboards that use it show nothing until they have the new token.`}
      command="group rotate"
      onRotate={rotate}
    />
  );
}

const UNTIL = "Resume it at";

/** The texts of a suspension to make. */
const NO_SUSPENSION = { reason: "", message: "", until: "" };

/** Dialogs that suspend a user group, change its suspension, or end it. */
function Suspend({ group, again }: Acting) {
  const { admin, environment, env } = useSession();
  const [texts, setTexts] = useState(NO_SUSPENSION);
  const { providedId: id, suspension } = group;
  const { reason, message } = texts;
  const until = texts.until.trim();
  const field = (name: keyof typeof texts) => ({
    value: texts[name],
    onValue: (text: string) => setTexts({ ...texts, [name]: text }),
  });
  const limit = (name: string) => limitOf(AdminService.method.suspendUserGroup, name);
  const suspend = async () => {
    const time = until === "" ? undefined : timeIn(UNTIL, until, 1);
    await admin.suspendUserGroup({ environment, userGroupId: id, reason, message, until: time });
    await again();
    return `Suspended the user group ${id}.`;
  };
  const resume = async () => {
    await admin.resumeUserGroup({ environment, userGroupId: id });
    await again();
    return `Resumed the user group ${id}.`;
  };
  return (
    <div class="buttons">
      <ConfirmButton
        label={suspension ? "Change its suspension …" : "Suspend the user group …"}
        title="Suspend a user group"
        id={id}
        consequence={`Dashboards of the user group ${id} show nothing from now on. Its token and all its values stay as they are.`}
        button="Suspend it"
        command={{ command: "group suspend", options: { reason, message, until }, args: [id], env }}
        onConfirm={suspend}
        onClose={() => setTexts(NO_SUSPENSION)}
      >
        <TextField
          label="Reason"
          hint="For operators. Viewers do not see it."
          {...field("reason")}
          maxLength={limit("reason")}
        />
        <TextField label="Message" hint="For the page." {...field("message")} maxLength={limit("message")} />
        <TextField
          label={UNTIL}
          hint="A time, a date, or a duration from now such as 7d. Empty: until somebody resumes it."
          {...field("until")}
        />
      </ConfirmButton>
      {suspension && (
        <ConfirmButton
          label="Resume the user group …"
          title="Resume a user group"
          id={id}
          consequence={`Dashboards of the user group ${id} work again, with the same token and values.`}
          button="Resume it"
          command={{ command: "group resume", args: [id], env }}
          onConfirm={resume}
        />
      )}
    </div>
  );
}

function End({ group, again }: Acting) {
  const { admin, environment, env } = useSession();
  const requestId = useRef(newRequestId());
  const { providedId: id, etag } = group;
  const revoke = async () => {
    await admin.revokeUserGroupTokens({ environment, userGroupId: id, requestId: requestId.current });
    requestId.current = newRequestId();
    // The next change needs the new etag.
    await again();
    return `Revoked the tokens of the user group ${id}.`;
  };
  const remove = async () => {
    await admin.deleteUserGroup({ environment, userGroupId: id, etag });
    go(hrefOf("groups", { env }), true);
    return `Deleted the user group ${id}.`;
  };
  return (
    <div class="buttons">
      <ConfirmButton
        label="Revoke its tokens …"
        title="Revoke the tokens of a user group"
        id={id}
        consequence={`This revokes all tokens of the user group ${id} at once, also one in its grace period. Dashboards that use one show nothing until they have a new token: rotate the token, or run ugs group create.`}
        button="Revoke them"
        command={{ command: "group revoke", args: [id], env }}
        onConfirm={revoke}
      />
      <ConfirmButton
        label="Delete the user group …"
        title="Delete a user group"
        id={id}
        consequence={`This permanently deletes the user group ${id}, with its name, mapping and properties, and revokes its tokens.`}
        button="Delete it"
        command={{ command: "group delete", options: { etag }, args: [id], env }}
        onConfirm={remove}
      />
    </div>
  );
}
