import { GetCallerResponseSchema } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { formatEnvironmentName } from "../environment-name.ts";
import { endText } from "../output/words.ts";
import { connect } from "../session.ts";
import { type AddCommands, runs } from "./command.ts";

/** `ugs whoami` */
export const whoamiCommand: AddCommands = (program, shell) => {
  const command = program.command("whoami").description("whose the token is, and what it may do");
  runs(command, shell, async (session) => {
    const { url } = await session.settings.connection();
    const { admin } = await connect(session);
    const caller = await admin.getCaller({});
    await session.out.record(GetCallerResponseSchema, caller, [
      ["service", url.href.replace(/\/$/, "")],
      ["token", caller.apiTokenId],
      ["name", caller.displayName],
      ["role", caller.role],
      ["environment", caller.environment ? formatEnvironmentName(caller.environment) : "every one, by --env"],
      ["expires", endText(caller.expireTime)],
    ]);
  });
};
