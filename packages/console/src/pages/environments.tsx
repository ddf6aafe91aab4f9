import { Plus, Trash2 } from "lucide-preact";
import { useState } from "preact/hooks";
import { GetEnvironmentResponseSchema } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type Environment, EnvironmentSchema } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { countText } from "../../../operator/src/words.ts";
import { useAnswer, useList } from "../parts/calls.ts";
import { CommandLine } from "../parts/command.tsx";
import { ChangeDialog, type Closable, DialogButton } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { CheckField } from "../parts/field.tsx";
import { announce } from "../parts/live.tsx";
import { columnsFor, MessageFacts } from "../parts/message.tsx";
import { Page } from "../parts/page.tsx";
import { ListTable, Skeleton } from "../parts/table.tsx";
import { hrefOf } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { CreateEnvironment } from "./create-environment.tsx";
import { Invitation } from "./start.tsx";

/**
 * If the user signed in with `ADMIN_TOKEN`, lists all environments. If the user signed in with an API token, shows the
 * environment of the API token.
 */
export function EnvironmentsPage() {
  const { isRoot } = useSession();
  return isRoot ? <All /> : <Own />;
}

function All() {
  const { admin } = useSession();
  const list = useList("environments", "environment", async (pageToken, signal) => {
    const { environments, nextPageToken } = await admin.listEnvironments({ pageToken }, { signal });
    return { items: environments, nextPageToken };
  });
  const create = (
    <DialogButton label="New environment" icon={Plus} look="main">
      {(close) => <CreateEnvironment onDone={list.again} onClose={close} />}
    </DialogButton>
  );
  return (
    <Page title="Environments" actions={create}>
      <Invitation />
      <section class="card">
        <ListTable
          list={list}
          none="There are no environments yet. An environment contains user groups and API tokens."
          create={create}
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
                <DialogButton
                  icon={Trash2}
                  look="plain"
                  label={
                    <>
                      Delete <span class="unseen">{formatEnvironmentName(environment)}</span> …
                    </>
                  }
                >
                  {(close) => <Delete environment={environment} again={list.again} onClose={close} />}
                </DialogButton>
              ),
            },
          ]}
        />
        <CommandLine command="env list" env={undefined} />
      </section>
    </Page>
  );
}

function Own() {
  const { admin } = useSession();
  const { value, error, again } = useAnswer("own", (signal) => admin.getEnvironment({}, { signal }));
  return (
    <Page title="Environments">
      <Invitation />
      <section class="card">
        <FailureBox error={error} again={again} />
        {!value && error === undefined && <Skeleton />}
        {value && <MessageFacts schema={GetEnvironmentResponseSchema} message={value} />}
        <CommandLine command="env get" />
      </section>
      <p class="note">
        This API token gives access only to its own environment. ADMIN_TOKEN can list, create and delete environments.
      </p>
    </Page>
  );
}

function Delete({
  environment: { name, tag },
  again,
  onClose,
}: { readonly environment: Environment; readonly again: () => void } & Closable) {
  const { admin } = useSession();
  const [force, setForce] = useState(false);
  const id = formatEnvironmentName({ name, tag });
  /** Each call deletes a limited number of user groups, so the call is repeated until the environment is deleted. */
  const deleteAll = async () => {
    for (;;) {
      const request = { environment: { name, tag }, force };
      const { done, remainingUserGroups } = await admin.deleteEnvironment(request);
      if (done) return `Deleted the environment ${id}.`;
      announce(`${countText(remainingUserGroups, "user group")} left to delete`);
    }
  };
  return (
    <ChangeDialog
      title="Delete an environment"
      id={id}
      consequence={`This permanently deletes the environment ${id}, and revokes its API tokens and user group tokens. The service keeps the audit trail of the environment.`}
      button="Delete it"
      command={{ command: "env delete", options: { force }, args: [id], env: undefined }}
      onConfirm={deleteAll}
      onClose={() => {
        onClose();
        again();
      }}
    >
      <CheckField label="Also delete the user groups of the environment" value={force} onValue={setForce} />
    </ChangeDialog>
  );
}
