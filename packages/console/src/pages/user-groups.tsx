import { Plus } from "lucide-preact";
import { useState } from "preact/hooks";
import { type UserGroupInfo, UserGroupInfoSchema } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { useList } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ChangeDialog, DialogButton } from "../parts/dialog.tsx";
import { Form, TextField, useFields } from "../parts/field.tsx";
import { columnsFor, GroupState } from "../parts/message.tsx";
import { Page, useSecret } from "../parts/page.tsx";
import { ListTable } from "../parts/table.tsx";
import { useTyped } from "../parts/typed.ts";
import { Id } from "../parts/visible.tsx";
import { go, hrefOf, type Params } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { EnvironmentTokenNote, fieldsIn, GroupFieldset, NO_TEXTS, optionsFor } from "./group-form.tsx";

/** Lists the user groups of an environment. If the address contains an id prefix, lists only the matching groups. */
export function UserGroupsPage({ params }: { readonly params: Params }) {
  const { admin, isRoot, environment, env } = useSession();
  const prefix = params["prefix"] ?? "";
  const [typed, setTyped] = useTyped(prefix);
  const list = useList<UserGroupInfo>(`groups ${prefix}`, "user group", async (pageToken, signal) => {
    // The first request reads only 100 groups, so that the first groups appear soon.
    const request = { environment, providedIdPrefix: prefix, pageToken, pageSize: pageToken === "" ? 100 : 1000 };
    const { userGroups, nextPageToken } = await admin.listUserGroups(request, { signal });
    return { items: userGroups, nextPageToken };
  });
  const search = async () => {
    go(hrefOf("groups", { env, prefix: typed }));
    return undefined;
  };
  const create = (
    <DialogButton label="New user group" icon={Plus} look="main">
      {(close) => <Create onMade={list.again} onClose={close} />}
    </DialogButton>
  );
  return (
    <Page title="User groups" actions={!isRoot && create}>
      <section class="card">
        <Form label="Search user groups" submit="Search" act={search} isInLine>
          <TextField label="Prefix of the id" value={typed} onValue={setTyped} />
        </Form>
        <ListTable
          list={list}
          none={
            prefix
              ? `No user group has an id that starts with ${prefix}.`
              : "There are no user groups yet. Your back end creates a user group for each of your customers."
          }
          create={!isRoot && prefix === "" && create}
          caption={prefix ? `User groups with ids that start with ${prefix}` : "All user groups"}
          keyOf={({ providedId }) => providedId}
          columns={[
            {
              name: "User group",
              isHeading: true,
              of: ({ providedId }) => <Id id={providedId} href={hrefOf("group", { env, id: providedId })} />,
            },
            ...columnsFor(UserGroupInfoSchema, ["name"]),
            { name: "State", of: (group) => <GroupState {...group} /> },
            ...columnsFor(UserGroupInfoSchema, ["last_resolve_date", "token_create_time", "update_time"]),
          ]}
        />
        <CommandLine command="group list" options={{ prefix }} />
      </section>
      {isRoot && <EnvironmentTokenNote what="create a user group" />}
    </Page>
  );
}

function Create({ onMade, onClose }: { readonly onMade: () => void; readonly onClose: () => void }) {
  const showSecret = useSecret();
  const { userGroups } = useSession();
  const [id, setId] = useState("");
  const { values: texts, field } = useFields(NO_TEXTS);
  const create = async () => {
    const { userGroup, newUserGroup } = await userGroups.getUserGroup({
      userGroupId: id,
      ...fieldsIn(texts),
      // If the name is unset, the service uses the id as the name.
      name: texts["name"] || undefined,
    });
    if (!newUserGroup || !userGroup)
      throw new InvalidInput(`The user group ${id} exists already. This group was not changed.`, "Id");
    const { token, suspension } = userGroup;
    if (!suspension)
      showSecret({
        title: `The token of the user group ${id}`,
        token,
        lost: "If you lose the token, rotate the token.",
      });
    onMade();
    return suspension
      ? `Created the user group ${id}. This group has expired already.`
      : `Created the user group ${id}.`;
  };
  return (
    <ChangeDialog
      title="New user group"
      button="Create"
      command={{ command: "group create", options: optionsFor(texts), args: [id || "ID"] }}
      isUnsaved={[id, ...Object.values(texts)].some((text) => text !== "")}
      onConfirm={create}
      onClose={onClose}
    >
      <TextField
        label="Id"
        hint="The id of the user group in your back end. You cannot change the id later."
        value={id}
        onValue={setId}
      />
      <GroupFieldset field={field} hints={{ name: "If empty, the name is the id." }} />
    </ChangeDialog>
  );
}
