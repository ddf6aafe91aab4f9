import { useState } from "preact/hooks";
import type { UserGroupInfo } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { type GroupTexts, mappingOptions, parseMapping, parseProperties } from "../group-fields.ts";
import { useAction, useList } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { Secret } from "../parts/copy.tsx";
import { Form, TextField } from "../parts/field.tsx";
import { Page, Section } from "../parts/page.tsx";
import { ListTable } from "../parts/table.tsx";
import { useTyped } from "../parts/typed.ts";
import { go, hrefOf } from "../routes.ts";
import { environmentOf, environmentParamOf, type Session } from "../session/session.ts";
import { timeText } from "../words.ts";
import { GroupFieldset, NeedsEnvironmentToken } from "./group-form.tsx";
import type { PageOfConsole, PageProps } from "./page.ts";

/** The user groups of an environment, by the prefix of their ids. */
export const userGroupsPage: PageOfConsole = {
  path: "groups",
  link: "User groups",
  isOfEnvironment: true,
  show: UserGroups,
};

function UserGroups({ session, params }: PageProps) {
  const prefix = params["prefix"] ?? "";
  const [typed, setTyped] = useTyped(prefix);
  const [made, setMade] = useState<{ readonly id: string; readonly token: string }>();
  const environment = environmentOf(session);
  const env = environmentParamOf(session);
  const list = useList<UserGroupInfo>(`groups ${prefix}`, "user group", async (pageToken, signal) => {
    const request = { environment, providedIdPrefix: prefix, pageToken };
    const { userGroups, nextPageToken } = await session.admin.listUserGroups(request, { signal });
    return { items: userGroups, nextPageToken };
  });
  return (
    <Page title="User groups">
      {made && (
        <Secret
          title={`The token of the user group ${made.id}`}
          token={made.token}
          lost="If it is lost, rotate the token."
          onClose={() => setMade(undefined)}
        />
      )}
      <Form label="Search user groups" submit="Search" onSubmit={() => go(hrefOf("groups", { ...env, prefix: typed }))}>
        <TextField label="Prefix of the id" value={typed} onValue={setTyped} maxLength={256} />
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
              <a class="id" href={hrefOf("group", { ...env, id: providedId })}>
                {providedId}
              </a>
            ),
          },
          { name: "Name", of: ({ name }) => name },
          { name: "Updated", of: ({ updateTime }) => timeText(updateTime) },
          { name: "Token since", of: ({ tokenCreateTime }) => timeText(tokenCreateTime) },
        ]}
      />
      <CommandLine command="group list" options={prefix ? ["--prefix", prefix] : []} {...env} />
      <Create
        session={session}
        onMade={(id, token) => {
          setMade({ id, token });
          list.again();
        }}
      />
    </Page>
  );
}

const NOTHING: GroupTexts = { name: "", mapping: "", properties: "" };

function Create({
  session,
  onMade,
}: {
  readonly session: Session;
  readonly onMade: (id: string, token: string) => void;
}) {
  const [id, setId] = useState("");
  const [texts, setTexts] = useState(NOTHING);
  const creating = useAction(async () => {
    const { userGroup, newUserGroup } = await session.userGroups.getUserGroup({
      userGroupId: id,
      name: texts.name || undefined,
      mapping: parseMapping(texts.mapping),
      properties: parseProperties(texts.properties),
    });
    if (!newUserGroup || !userGroup) return `The user group ${id} exists already. It was not changed.`;
    setId("");
    setTexts(NOTHING);
    onMade(id, userGroup.token);
    return `Created the user group ${id}.`;
  });
  return (
    <Section title="Create a user group">
      {session.isRoot ? (
        <NeedsEnvironmentToken what="create a user group" />
      ) : (
        <>
          <Form
            label="Create a user group"
            submit="Create"
            isUnsaved={[id, ...Object.values(texts)].some((text) => text !== "")}
            action={creating}
            onSubmit={() => void creating.run()}
          >
            <TextField
              label="Id"
              hint="The id of the user group in your back end. It cannot be changed."
              value={id}
              onValue={setId}
              maxLength={256}
            />
            <GroupFieldset
              texts={texts}
              nameHint="Empty: the id."
              onText={(field, text) => setTexts({ ...texts, [field]: text })}
            />
          </Form>
          <CommandLine
            command="group create"
            options={[
              ...(texts.mapping.trim() ? mappingOptions(texts.mapping) : []),
              ...(texts.properties.trim() ? ["--properties", "FILE"] : []),
              // After a mapping comes an option: it ends the entries.
              ...(texts.name || texts.mapping.trim() ? ["--name", texts.name || id] : []),
            ]}
            args={[id || "ID"]}
          />
        </>
      )}
    </Section>
  );
}
