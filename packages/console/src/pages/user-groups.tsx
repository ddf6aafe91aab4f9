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
          lost="Where it is lost, a rotation makes another one."
          onClose={() => setMade(undefined)}
        />
      )}
      <Form label="Search user groups" submit="Search" onSubmit={() => go(hrefOf("groups", { ...env, prefix: typed }))}>
        <TextField label="What their ids begin with" value={typed} onValue={setTyped} maxLength={256} />
      </Form>
      <ListTable
        list={list}
        none={prefix ? `There is no user group whose id begins with ${prefix}.` : "There is no user group yet."}
        caption={prefix ? `User groups whose ids begin with ${prefix}` : "All user groups"}
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
    if (!newUserGroup || !userGroup) return `There is a user group ${id} already, which was left as it is.`;
    setId("");
    setTexts(NOTHING);
    onMade(id, userGroup.token);
    return `The user group ${id} is created.`;
  });
  return (
    <Section title="Create a user group">
      {session.isRoot ? (
        <NeedsEnvironmentToken what="creates a user group" />
      ) : (
        <>
          <Form label="Create a user group" submit="Create" action={creating} onSubmit={() => void creating.run()}>
            <TextField
              label="Id"
              hint="By which the back end knows it, for good."
              value={id}
              onValue={setId}
              maxLength={256}
            />
            <GroupFieldset
              texts={texts}
              nameHint="Nothing: the id."
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
