import { useRef, useState } from "preact/hooks";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { type GroupTexts, mappingOptions, parseMapping, parseProperties, textsOf } from "../group-fields.ts";
import { type Answer, useAction, useAnswer } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { Secret } from "../parts/copy.tsx";
import { ConfirmDialog } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Form, TextField } from "../parts/field.tsx";
import { Page, Section } from "../parts/page.tsx";
import { Facts } from "../parts/table.tsx";
import { go, hrefOf } from "../routes.ts";
import { NotRight } from "../session/failures.ts";
import { newRequestId } from "../session/request-id.ts";
import { environmentOf, environmentParamOf, type Session } from "../session/session.ts";
import { parseDuration, timeText } from "../words.ts";
import { GroupFieldset, NeedsEnvironmentToken } from "./group-form.tsx";
import type { PageOfConsole, PageProps } from "./page.ts";

/** One user group: its facts, and what can be done with it. */
export const userGroupPage: PageOfConsole = { path: "group", isOfEnvironment: true, show: UserGroup };

function UserGroup({ session, params }: PageProps) {
  const id = params["id"] ?? "";
  const [token, setToken] = useState<string>();
  const env = environmentParamOf(session);
  const answer = useAnswer(id, async (signal) => {
    const request = { environment: environmentOf(session), userGroupId: id };
    const { userGroup } = await session.admin.lookupUserGroup(request, { signal });
    return userGroup;
  });
  const group = answer.value;
  return (
    <Page title="User group" detail={id}>
      <ul class="links">
        <li>
          <a href={hrefOf("groups", env)}>All user groups</a>
        </li>
        <li>
          <a href={hrefOf("audit", { ...env, group: id })}>Its audit events</a>
        </li>
        <li>
          <a href={hrefOf("sessions", { ...env, group: id })}>End its viewer sessions</a>
        </li>
      </ul>
      {token !== undefined && (
        <Secret
          title={`The new token of the user group ${id}`}
          token={token}
          lost="Where it is lost, another rotation makes another one."
          onClose={() => setToken(undefined)}
        />
      )}
      <FailureBox error={answer.error} again={answer.again} />
      {group && (
        <>
          <Look group={group} />
          <CommandLine command="group get" args={[id]} {...env} />
          <Section title="Change">
            {session.isRoot ? (
              <NeedsEnvironmentToken what="changes a user group" />
            ) : (
              <Change session={session} answer={answer} group={group} />
            )}
          </Section>
          <Section title="Rotate the token">
            {session.isRoot ? (
              <NeedsEnvironmentToken what="rotates the token of a user group" />
            ) : (
              <Rotate
                session={session}
                id={id}
                onToken={(made) => {
                  setToken(made);
                  return answer.again();
                }}
              />
            )}
          </Section>
          <Section title="End">
            <End session={session} group={group} again={answer.again} />
          </Section>
        </>
      )}
    </Page>
  );
}

function Look({ group }: { readonly group: UserGroupInfo }) {
  const { mapping, properties } = textsOf(group);
  return (
    <Facts
      facts={[
        ["Name", group.name],
        ["Team id", String(group.teamId)],
        ["Mapping", mapping ? <pre>{mapping}</pre> : "none"],
        ["Properties", properties ? <pre>{properties}</pre> : "none"],
        ["Created", timeText(group.createTime)],
        ["Updated", timeText(group.updateTime)],
        ["Token since", timeText(group.tokenCreateTime)],
        ["Last rotation", group.lastRotationTime && timeText(group.lastRotationTime)],
        ["Token before until", group.graceExpireTime && timeText(group.graceExpireTime)],
        ["Token imported", group.importedToken ? "yes" : undefined],
        ["Etag", <code key="etag">{group.etag}</code>],
      ]}
    />
  );
}

/**
 * A form for the fields. A field that was not touched follows the group. A field that was touched keeps the typed text
 * until it is saved, and replaces what somebody else saved meanwhile only after a warning.
 */
function Change({
  session,
  answer,
  group,
}: {
  readonly session: Session;
  readonly answer: Pick<Answer<unknown>, "again">;
  readonly group: UserGroupInfo;
}) {
  const [touched, setTouched] = useState<Partial<GroupTexts>>({});
  /** The fields' texts when they were first touched. */
  const [replaced, setReplaced] = useState<Partial<GroupTexts>>({});
  const present = textsOf(group);
  const texts = { ...present, ...touched };
  const paths = (Object.keys(present) as (keyof GroupTexts)[]).filter((field) => texts[field] !== present[field]);
  const id = group.providedId;
  const changing = useAction(async () => {
    if (paths.length === 0) throw new NotRight("Nothing is changed: every field is as it was.");
    const others = paths.filter((field) => (replaced[field] ?? present[field]) !== present[field]);
    if (others.length > 0) {
      setReplaced(present);
      throw new NotRight(
        `Somebody changed ${others.join(", ")} meanwhile: look what it is now. To save again replaces it.`,
      );
    }
    const fields = {
      name: texts.name,
      mapping: parseMapping(texts.mapping),
      properties: parseProperties(texts.properties),
    };
    try {
      await session.userGroups.updateUserGroup({
        userGroupId: id,
        ...fields,
        updateMask: { paths },
        etag: group.etag,
      });
      setTouched({});
    } finally {
      // Also after a change by somebody else, so that the new text is seen.
      setReplaced({});
      await answer.again();
    }
    return `The user group ${id} has another ${paths.join(", ")}.`;
  });
  const onText = (field: keyof GroupTexts, text: string) => {
    setTouched({ ...touched, [field]: text });
    setReplaced({ [field]: present[field], ...replaced });
  };
  const options = paths.flatMap((field) => {
    if (texts[field].trim() === "") return ["--clear", field];
    if (field === "properties") return ["--properties", "FILE"];
    return field === "mapping" ? mappingOptions(texts.mapping) : ["--name", texts.name];
  });
  return (
    <>
      <Form label="Change" submit="Save" action={changing} onSubmit={() => void changing.run()}>
        <GroupFieldset texts={texts} onText={onText} />
        <p class="small">{paths.length === 0 ? "Nothing is changed yet." : `Saving changes: ${paths.join(", ")}.`}</p>
      </Form>
      <CommandLine
        command="group update"
        args={[id]}
        options={options.length > 0 ? [...options, "--etag", group.etag] : ["--name", "TEXT"]}
      />
    </>
  );
}

function Rotate({
  session,
  id,
  onToken,
}: {
  readonly session: Session;
  readonly id: string;
  readonly onToken: (token: string) => Promise<void>;
}) {
  const [grace, setGrace] = useState("");
  const [fault, setFault] = useState<string>();
  // A rotation whose answer was lost is repeated under the same id, which rotates once.
  const requestId = useRef(newRequestId());
  const rotating = useAction(async (seconds: number | undefined) => {
    const { userGroup } = await session.userGroups.rotateUserGroupToken({
      group: { case: "userGroupId", value: id },
      previousTokenTtl: seconds === undefined ? undefined : { seconds: BigInt(seconds) },
      requestId: requestId.current,
    });
    requestId.current = newRequestId();
    if (userGroup) await onToken(userGroup.token);
    return `The token of the user group ${id} is rotated.`;
  });
  const submit = () => {
    const seconds = grace.trim() === "" ? undefined : parseDuration(grace);
    const isRight = grace.trim() === "" || (seconds !== undefined && seconds <= 30 * 86_400);
    setFault(isRight ? undefined : "A grace is written 30s, 5m, 1h or 30d, which is the longest.");
    if (isRight) void rotating.run(seconds);
  };
  return (
    <>
      <Form label="Rotate the token" submit="Rotate" action={rotating} onSubmit={submit}>
        <TextField
          label="Grace"
          hint="How long the token before stays valid, such as 1h, for dashboards that have it. 0s: it ends at once. Nothing: as the service is set (ROTATION_GRACE)."
          value={grace}
          onValue={setGrace}
          fault={fault}
        />
      </Form>
      <CommandLine command="group rotate" options={grace.trim() ? ["--grace", grace.trim()] : []} args={[id]} />
    </>
  );
}

function End({
  session,
  group,
  again,
}: {
  readonly session: Session;
  readonly group: UserGroupInfo;
  readonly again: () => Promise<void>;
}) {
  const [ending, setEnding] = useState<"revoke" | "delete">();
  const requestId = useRef(newRequestId());
  const env = environmentParamOf(session);
  const environment = environmentOf(session);
  const { providedId: id, etag } = group;
  const revoke = async () => {
    await session.admin.revokeUserGroupTokens({ environment, userGroupId: id, requestId: requestId.current });
    requestId.current = newRequestId();
    // The group has another etag now, with which it is changed or deleted next.
    await again();
    return `The tokens of the user group ${id} have ended.`;
  };
  const remove = async () => {
    await session.admin.deleteUserGroup({ environment, userGroupId: id, etag });
    go(hrefOf("groups", env), true);
    return `The user group ${id} is deleted.`;
  };
  return (
    <>
      <p class="buttons">
        <button type="button" onClick={() => setEnding("revoke")}>
          Revoke its tokens …
        </button>
        <button type="button" onClick={() => setEnding("delete")}>
          Delete the user group …
        </button>
      </p>
      {ending === "revoke" && (
        <ConfirmDialog
          title="Revoke the tokens of a user group"
          id={id}
          consequence={`This ends all tokens of the user group ${id} at once, also one on its grace: dashboards that have one show nothing. It gets a fresh one, which a rotation, or ugs group create, shows.`}
          button="Revoke them"
          command={{ command: "group revoke", args: [id], ...env }}
          onConfirm={revoke}
          onClose={() => setEnding(undefined)}
        />
      )}
      {ending === "delete" && (
        <ConfirmDialog
          title="Delete a user group"
          id={id}
          consequence={`This deletes the user group ${id} for good, with its name, mapping and properties, and ends its tokens.`}
          button="Delete it"
          command={{ command: "group delete", options: ["--etag", group.etag], args: [id], ...env }}
          onConfirm={remove}
          onClose={() => setEnding(undefined)}
        />
      )}
    </>
  );
}
