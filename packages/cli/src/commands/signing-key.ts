import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { commandGroup } from "./command.ts";
import { FieldOption, rpcCommand } from "./rpc-command.ts";

const { listSigningKeys, rotateSigningKey } = AdminService.method;

const COLUMNS = ["id", "state", "active_time", "retire_time", "expire_time"];

export const signingKeyCommands = commandGroup("keys that sign viewer sessions", {
  list: rpcCommand(
    listSigningKeys,
    "list the keys that sign viewer sessions, and the times at which each key is in use",
    {
      columns: COLUMNS,
      none: "There are no keys yet: the first viewer session creates them.",
    },
  ),
  rotate: rpcCommand(
    rotateSigningKey,
    "sign new viewer sessions with the next key; without --end-sessions, no session is revoked; needs ADMIN_TOKEN",
    {
      fields: {
        end_sessions: new FieldOption(
          "--end-sessions",
          "if a key has leaked or is lost: replace all keys immediately, and revoke every viewer session",
        ),
      },
      columns: COLUMNS,
      confirm: ({ environment, endSessions }) => {
        if (!endSessions) return undefined;
        const id = environment ? formatEnvironmentName(environment) : "";
        const consequence = `This revokes all viewer sessions of the environment ${id}: pages with a revoked session need a new session`;
        return { id, consequence };
      },
      note: (_, { environment, endSessions }) =>
        endSessions && environment
          ? `Revoked the viewer sessions of ${formatEnvironmentName(environment)}. A back end that verifies sessions by itself accepts these sessions until it reads the new keys, which takes at most 10 minutes.`
          : undefined,
    },
  ),
});
