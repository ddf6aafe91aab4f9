import { GetCallerResponseSchema } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { connect } from "../session.ts";
import { urlText } from "../settings.ts";
import { type DefineCommand, runs } from "./command.ts";

export const whoamiCommand: DefineCommand = (command, shell) => {
  command.description("show the API token in use, and its role");
  runs(command, shell, async (session) => {
    const { admin, connection } = await connect(session);
    const caller = await admin.getCaller({});
    await session.out.record(GetCallerResponseSchema, caller, [{ label: "service", text: urlText(connection) }]);
  });
};
