import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { countText } from "../../../operator/src/words.ts";
import { isNotFound } from "../failures.ts";
import { confirm } from "../questions.ts";
import { connect } from "../session.ts";
import { commandGroup, runs } from "./command.ts";
import { type Options, parseEnvironment, yesOption } from "./options.ts";
import { rpcCommand } from "./rpc-command.ts";

const { createEnvironment, getEnvironment, listEnvironments } = AdminService.method;

const NAMED = "NAME, NAME/Customer or NAME/Testing";

export const envCommands = commandGroup("environments", {
  create: rpcCommand(createEnvironment, `create an environment: ${NAMED}; needs ADMIN_TOKEN`, {
    fields: { environment: "<name>" },
  }),
  list: rpcCommand(listEnvironments, "list all environments; needs ADMIN_TOKEN", {
    columns: ["name", "create_time", "delete_time"],
    none: "There are no environments.",
  }),
  get: rpcCommand(
    getEnvironment,
    "show an environment with the numbers of its groups and tokens; default: the environment of the token",
    { fields: { environment: "[name]" } },
  ),
  delete: (command, shell) => {
    command
      .description("delete an environment; needs ADMIN_TOKEN")
      .argument("<name>", NAMED)
      .option("--force", "also delete the user groups of the environment")
      .addOption(yesOption());
    runs(command, shell, async (session, name: string, { force = false, yes }: Options) => {
      const environment = parseEnvironment(name);
      const { admin } = await connect(session);
      const id = formatEnvironmentName(environment);
      const groups = force ? "its user groups, " : "";
      const consequence = `This permanently deletes the environment ${id}: ${groups}its API tokens and its user group tokens`;
      await confirm(shell, { id, consequence }, yes);
      for (let isFirst = true; ; isFirst = false) {
        try {
          const { done, remainingUserGroups } = await admin.deleteEnvironment({ environment, force });
          if (done) break;
          session.out.note(`${countText(remainingUserGroups, "user group")} left`);
        } catch (error) {
          // If the response of the previous call was lost, that call may still have deleted the environment.
          if (isFirst || !isNotFound(error)) throw error;
          break;
        }
      }
      if (session.out.isJson) await session.out.line("{}");
      session.out.note(`The environment ${id} is deleted.`);
    });
  },
});
