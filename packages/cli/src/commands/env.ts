import { GetEnvironmentResponseSchema } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type Environment, EnvironmentSchema } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { formatEnvironmentName, parseEnvironmentName } from "../environment-name.ts";
import { EXIT, Failure } from "../failures.ts";
import type { Facts } from "../output/output.ts";
import type { Column } from "../output/table.ts";
import { timeText } from "../output/words.ts";
import { pagesOf } from "../pages.ts";
import { confirm } from "../questions.ts";
import { type Clients, connect } from "../session.ts";
import { type DefineCommand, runs } from "./command.ts";
import { environmentOf, limitOption, type YesOption, yesOption } from "./options.ts";

/** `ugs env ...` */
export const envCommands: DefineCommand = (env, shell) => {
  const create = env
    .command("create")
    .description("make an environment; for ADMIN_TOKEN")
    .argument("<name>", "NAME, NAME/Customer or NAME/Testing");
  runs(create, shell, async (session, name: string) => {
    const environment = parseEnvironmentName(name);
    const { admin } = await connect(session);
    const { environment: made } = await admin.createEnvironment({ environment });
    if (made) await session.out.record(EnvironmentSchema, made, facts(made));
  });

  const list = env.command("list").description("list all environments; for ADMIN_TOKEN").addOption(limitOption());
  runs(list, shell, async (session, { limit }: { readonly limit?: number }) => {
    const { admin } = await connect(session);
    const pages = pagesOf(limit, async (page) => {
      const { environments, nextPageToken } = await admin.listEnvironments(page);
      return { items: environments, nextPageToken };
    });
    await session.out.list(EnvironmentSchema, COLUMNS, pages);
  });

  const get = env
    .command("get")
    .description("show an environment, and how much it has")
    .argument("[name]", "that of the token by default");
  runs(get, shell, async (session, name: string | undefined) => {
    const environment = environmentOf(session, { env: name });
    const { admin } = await connect(session);
    const found = await admin.getEnvironment({ environment });
    await session.out.record(GetEnvironmentResponseSchema, found, [
      ...(found.environment ? facts(found.environment) : []),
      ["user groups", String(found.userGroupCount)],
      ["API tokens", String(found.apiTokenCount)],
    ]);
  });

  const remove = env
    .command("delete")
    .description("delete an environment; for ADMIN_TOKEN")
    .argument("<name>", "NAME, NAME/Customer or NAME/Testing")
    .option("--force", "with all of its user groups")
    .addOption(yesOption());
  runs(remove, shell, async (session, name: string, { force, yes }: YesOption & { readonly force?: boolean }) => {
    const environment = parseEnvironmentName(name);
    const clients = await connect(session);
    const id = formatEnvironmentName(environment);
    const groups = force ? "its user groups, " : "";
    const consequence = `This ends the environment ${id} for good: ${groups}its API tokens and its user group tokens`;
    await confirm(shell, { what: `the environment ${id}`, id, consequence }, yes);
    await deleteAll(clients, { environment, force }, (left) => session.out.note(`${left} user groups are left`));
    await session.out.done(`The environment ${id} is deleted.`);
  });
};

/** Deletes an environment, call by call. @param progress is told how many user groups are left */
async function deleteAll(
  { admin }: Clients,
  request: Parameters<Clients["admin"]["deleteEnvironment"]>[0],
  progress: (left: bigint) => void,
): Promise<void> {
  for (let calls = 1; ; calls++) {
    try {
      const { done, remainingUserGroups } = await admin.deleteEnvironment(request);
      if (done) return;
      progress(remainingUserGroups);
    } catch (error) {
      // The environment is gone: the answer that it is done was lost.
      if (calls > 1 && error instanceof Failure && error.detail.exitCode === EXIT.notFound) return;
      throw error;
    }
  }
}

function facts({ createTime, deleteTime, ...name }: Environment): Facts {
  return [
    ["environment", formatEnvironmentName(name)],
    ["created", timeText(createTime)],
    ["deleting since", timeText(deleteTime)],
  ];
}

const COLUMNS: readonly Column<Environment>[] = [
  { name: "ENVIRONMENT", of: formatEnvironmentName, isFree: true },
  { name: "CREATED", of: ({ createTime }) => timeText(createTime) },
  { name: "STATE", of: ({ deleteTime }) => (deleteTime ? `deleting since ${timeText(deleteTime)}` : "active") },
];
