import { useState } from "preact/hooks";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type UserGroupInfo, UserGroupInfoSchema } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { UserGroupService } from "../../../../gen/usergroup/v1/user_group_service_pb.ts";
import { limitOf } from "../../../operator/src/fields.ts";
import { useList } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { Form, TextField } from "../parts/field.tsx";
import { columnsFor, SuspendedBadge } from "../parts/message.tsx";
import { Page, Section, useSecret } from "../parts/page.tsx";
import { ListTable } from "../parts/table.tsx";
import { useTyped } from "../parts/typed.ts";
import { go, hrefOf, type Params } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { fieldsIn, GroupFieldset, NO_TEXTS, optionsFor, WithEnvironmentToken } from "./group-form.tsx";

/** The user groups of an environment, by the prefix of their ids. */
export function UserGroupsPage({ params }: { readonly params: Params }) {
  const { admin, environment, env } = useSession();
  const prefix = params["prefix"] ?? "";
  const [typed, setTyped] = useTyped(prefix);
  const list = useList<UserGroupInfo>(`groups ${prefix}`, "user group", async (pageToken, signal) => {
    const request = { environment, providedIdPrefix: prefix, pageToken };
    const { userGroups, nextPageToken } = await admin.listUserGroups(request, { signal });
    return { items: userGroups, nextPageToken };
  });
  const search = async () => {
    go(hrefOf("groups", { env, prefix: typed }));
    return undefined;
  };
  return (
    <Page title="User groups">
      <Form label="Search user groups" submit="Search" act={search}>
        <TextField
          label="Prefix of the id"
          value={typed}
          onValue={setTyped}
          maxLength={limitOf(AdminService.method.listUserGroups, "provided_id_prefix")}
        />
      </Form>
      <ListTable
        list={list}
        none={prefix ? `No user group has an id that starts with ${prefix}.` : "There are no user groups yet."}
        caption={prefix ? `User groups with ids that start with ${prefix}` : "All user groups"}
        keyOf={({ providedId }) => providedId}
        columns={[
          {
            name: "User group",
            isHeading: true,
            of: ({ providedId }) => (
              <a class="id" href={hrefOf("group", { env, id: providedId })}>
                {providedId}
              </a>
            ),
          },
          ...columnsFor(UserGroupInfoSchema, ["name"]),
          { name: "State", of: (group) => (group.suspension ? <SuspendedBadge {...group} /> : "Active") },
          ...columnsFor(UserGroupInfoSchema, ["update_time", "token_create_time"]),
        ]}
      />
      <CommandLine command="group list" options={{ prefix }} env={env} />
      <Create onMade={list.again} />
    </Page>
  );
}

function Create({ onMade }: { readonly onMade: () => void }) {
  const showSecret = useSecret();
  const { userGroups } = useSession();
  const [id, setId] = useState("");
  const [texts, setTexts] = useState(NO_TEXTS);
  const create = async () => {
    const { userGroup, newUserGroup } = await userGroups.getUserGroup({
      userGroupId: id,
      ...fieldsIn(texts),
      // An empty name is the id.
      name: texts["name"] || undefined,
    });
    if (!newUserGroup || !userGroup) return `The user group ${id} exists already. It was not changed.`;
    setId("");
    setTexts(NO_TEXTS);
    const { token, suspension } = userGroup;
    if (!suspension)
      showSecret({ title: `The token of the user group ${id}`, token, lost: "If it is lost, rotate the token." });
    onMade();
    return suspension ? `Created the user group ${id}. It has expired already.` : `Created the user group ${id}.`;
  };
  return (
    <Section title="Create a user group">
      <WithEnvironmentToken what="create a user group">
        <Form
          label="Create a user group"
          submit="Create"
          isUnsaved={[id, ...Object.values(texts)].some((text) => text !== "")}
          act={create}
        >
          <TextField
            label="Id"
            hint="The id of the user group in your back end. It cannot be changed."
            value={id}
            onValue={setId}
            maxLength={limitOf(UserGroupService.method.getUserGroup, "user_group_id")}
          />
          <GroupFieldset
            texts={texts}
            hints={{ name: "Empty: the id." }}
            onText={(field, text) => setTexts({ ...texts, [field]: text })}
          />
        </Form>
        <CommandLine command="group create" options={optionsFor(texts)} args={[id || "ID"]} />
      </WithEnvironmentToken>
    </Section>
  );
}
