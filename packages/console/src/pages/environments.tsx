import { useState } from "preact/hooks";
import { GetEnvironmentResponseSchema } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type Environment, EnvironmentSchema } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName, parseEnvironmentName } from "../../../operator/src/environment-name.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { useAction, useAnswer, useList } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ConfirmDialog } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { CheckField, Form, SelectField, TextField } from "../parts/field.tsx";
import { announce } from "../parts/live.tsx";
import { columnsFor, MessageFacts } from "../parts/message.tsx";
import { NotOffered, Page, Section } from "../parts/page.tsx";
import { ListTable } from "../parts/table.tsx";
import { hrefOf } from "../routes.ts";
import type { Session } from "../session/session.ts";
import { countText } from "../words.ts";
import type { PageOfConsole, PageProps } from "./page.ts";

/** All environments for `ADMIN_TOKEN`; the own environment for an API token. */
export const environmentsPage: PageOfConsole = {
  path: "environments",
  link: "Environments",
  isOfEnvironment: false,
  show: ({ session }: PageProps) => (
    <Page title="Environments">{session.isRoot ? <All session={session} /> : <Own session={session} />}</Page>
  ),
};

function All({ session }: { readonly session: Session }) {
  const [ending, setEnding] = useState<Environment>();
  const list = useList("environments", "environment", async (pageToken, signal) => {
    const { environments, nextPageToken } = await session.admin.listEnvironments({ pageToken }, { signal });
    return { items: environments, nextPageToken };
  });
  return (
    <>
      <ListTable
        list={list}
        none="There are no environments yet. Create one for user groups and API tokens."
        caption="All environments"
        keyOf={formatEnvironmentName}
        columns={[
          {
            name: "Environment",
            isHeading: true,
            of: (environment) => {
              const name = formatEnvironmentName(environment);
              return environment.deleteTime ? name : <a href={hrefOf("environments", { env: name })}>{name}</a>;
            },
          },
          ...columnsFor(EnvironmentSchema, ["create_time", "delete_time"]),
          {
            name: "Delete",
            of: (environment) => (
              <button type="button" onClick={() => setEnding(environment)}>
                Delete <span class="unseen">{formatEnvironmentName(environment)}</span> …
              </button>
            ),
          },
        ]}
      />
      <CommandLine command="env list" />
      <Create session={session} onDone={list.again} />
      {ending && (
        <Delete
          session={session}
          environment={ending}
          onClose={() => {
            setEnding(undefined);
            list.again();
          }}
        />
      )}
    </>
  );
}

function Own({ session }: { readonly session: Session }) {
  const answer = useAnswer("own", (signal) => session.admin.getEnvironment({}, { signal }));
  return (
    <>
      <FailureBox error={answer.error} again={answer.again} />
      {answer.value && <MessageFacts schema={GetEnvironmentResponseSchema} message={answer.value} />}
      <CommandLine command="env get" />
      <NotOffered>
        This API token may act on its own environment only. ADMIN_TOKEN can list, create and delete environments.
      </NotOffered>
    </>
  );
}

const TAG_OPTIONS = [
  ["", "none"],
  ["Customer", "Customer"],
  ["Testing", "Testing"],
] as const;

function Create({ session, onDone }: { readonly session: Session; readonly onDone: () => void }) {
  const [name, setName] = useState("");
  const [tag, setTag] = useState("");
  const whole = tag ? `${name}/${tag}` : name;
  const creating = useAction(async () => {
    const environment = parseEnvironmentName(whole);
    if (!environment) throw new InvalidInput("A name has 1 to 64 characters: ASCII letters, digits, '.', '_' or '-'.");
    await session.admin.createEnvironment({ environment });
    setName("");
    onDone();
    return `Created the environment ${whole}.`;
  });
  return (
    <Section title="Create an environment">
      <Form
        label="Create an environment"
        submit="Create"
        isUnsaved={name !== ""}
        action={creating}
        onSubmit={() => void creating.run()}
      >
        <TextField label="Name" value={name} onValue={setName} maxLength={64} />
        <SelectField label="Tag" value={tag} onValue={setTag} options={TAG_OPTIONS} />
      </Form>
      <CommandLine command="env create" args={[name ? whole : "NAME"]} />
    </Section>
  );
}

function Delete({
  session,
  environment: { name, tag },
  onClose,
}: {
  readonly session: Session;
  readonly environment: Environment;
  readonly onClose: () => void;
}) {
  const [force, setForce] = useState(false);
  const id = formatEnvironmentName({ name, tag });
  /** Deletes the environment in as many calls as it takes. */
  const deleteAll = async () => {
    for (;;) {
      const { done, remainingUserGroups } = await session.admin.deleteEnvironment({
        environment: { name, tag },
        force,
      });
      if (done) return `Deleted the environment ${id}.`;
      announce(`${countText(remainingUserGroups, "user group")} left`);
    }
  };
  return (
    <ConfirmDialog
      title="Delete an environment"
      id={id}
      consequence={`This permanently deletes the environment ${id}, and revokes its API tokens and user group tokens. Its audit trail stays.`}
      button="Delete it"
      command={{ command: "env delete", options: force ? ["--force"] : [], args: [id] }}
      onConfirm={deleteAll}
      onClose={onClose}
    >
      <CheckField label="Also delete its user groups" value={force} onValue={setForce} />
    </ConfirmDialog>
  );
}
