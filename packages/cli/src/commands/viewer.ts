import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ViewerService } from "../../../../gen/usergroup/v1/viewer_service_pb.ts";
import { timeText } from "../../../operator/src/times.ts";
import { commandGroup } from "./command.ts";
import { FieldOption, rpcCommand } from "./rpc-command.ts";

const { resolveViewer, createViewerSession } = ViewerService.method;
const { revokeViewerSessions } = AdminService.method;

const SESSIONS = commandGroup("viewer sessions", {
  create: rpcCommand(
    createViewerSession,
    "create a viewer session of a user group; shows the session once, or writes it to the file of --out",
    {
      fields: {
        audience: new FieldOption(
          "--audience <text>",
          "the audience (`aud`) of the session; a verifier expects this text",
        ).makeOptionMandatory(),
        user_group_id: new FieldOption(
          "--group <id>",
          "the user group; without --group, ugs reads a token of the group: from --from-file, a prompt or standard input",
        ),
        token: new FieldOption("--from-file <file>", "instead of --group: a file with the token of the group", {
          secret: "User group token",
          isAsked: true,
        }),
        ttl: new FieldOption(
          "--ttl <duration>",
          "lifetime: from 60s to VIEWER_SESSION_MAX of the service, at most 1h; default: 10m",
        ),
        viewer_id: new FieldOption(
          "--viewer <id>",
          "the id of the viewer within the group, needed to revoke only the sessions of this viewer",
          { isFilled: true },
        ),
        origin: new FieldOption("--origin <origin>", "the origin of the page, such as https://app.example.com"),
        property_keys: new FieldOption(
          "--property <key...>",
          "keys of the group properties to include; the bearer of the session can read these properties; default: none",
        ),
        claims: new FieldOption("--claims <json>", "further claims: a JSON object, or a file with a JSON object"),
      },
      secret: ({ session: token, id, expireTime, refreshTime }, { audience }) => ({
        token,
        sentence: `Created the viewer session ${id} for ${audience}. It expires at ${timeText(expireTime)}; create the next session at ${timeText(refreshTime)}. The session cannot be shown again. The session`,
        ifLost: "run the same command again to create another session",
      }),
    },
  ),
  revoke: rpcCommand(
    revokeViewerSessions,
    "revoke the viewer sessions of a user group, or of one viewer; the tokens of the group stay valid",
    {
      fields: {
        // If the viewer id were empty, the service would revoke the sessions of the whole group.
        viewer_id: new FieldOption("--viewer <id>", "only this viewer; default: the whole group", { isFilled: true }),
      },
      confirm: ({ userGroupId, viewerId }) => {
        const whose = whoseSessions(userGroupId, viewerId);
        const consequence = `This revokes all viewer sessions of ${whose}: pages with a revoked session need a new session`;
        return { id: viewerId || userGroupId, consequence };
      },
      done: ({ userGroupId, viewerId }) =>
        `Revoked the viewer sessions of ${whoseSessions(userGroupId, viewerId)}. A back end that verifies sessions by itself accepts each session until the session expires.`,
    },
  ),
});

export const viewerCommands = commandGroup("viewers and their sessions", {
  resolve: rpcCommand(
    resolveViewer,
    "show the user group of a token or a viewer session; exit code 3 if no group is found",
    {
      fields: {
        token: new FieldOption(
          "--from-file <file>",
          "a file with the token or session; default: a prompt, or standard input",
          { secret: "User group token or viewer session", isAsked: true },
        ),
        audience: new FieldOption("--audience <text>", "accept a viewer session only with this audience", {
          isFilled: true,
        }),
      },
    },
  ),
  session: SESSIONS,
});

function whoseSessions(userGroupId: string, viewerId: string | undefined): string {
  return viewerId ? `the viewer ${viewerId} of ${userGroupId}` : userGroupId;
}
