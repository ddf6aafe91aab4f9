import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ViewerService } from "../../../../gen/usergroup/v1/viewer_service_pb.ts";
import { timeText } from "../../../operator/src/times.ts";
import { commandGroup } from "./command.ts";
import { rpcCommand } from "./rpc-command.ts";

const { resolveViewer, createViewerSession } = ViewerService.method;
const { revokeViewerSessions } = AdminService.method;

/** `ugs viewer session ...` */
const SESSIONS = commandGroup({
  create: rpcCommand(
    createViewerSession,
    "create a viewer session of a user group; shows it once, or writes it to the file of --out",
    {
      fields: {
        audience: {
          flags: "--audience <text>",
          description: "the audience (`aud`) of the session; a verifier expects this text",
          isRequired: true,
        },
        user_group_id: {
          flags: "--group <id>",
          description: "the user group; default: the group of a token from a prompt, or from standard input",
        },
        token: {
          flags: "--from-file <file>",
          description: "in place of --group: a file with the token of the group",
          secret: "User group token",
          isAsked: true,
        },
        ttl: {
          flags: "--ttl <duration>",
          description: "lifetime: 60s to 1h, or the maximum that the service sets; default: 10m",
        },
        viewer_id: {
          flags: "--viewer <id>",
          description: "the id of the viewer within the group, needed to revoke the sessions of one viewer",
          isFilled: true,
        },
        origin: { flags: "--origin <origin>", description: "the origin of the page, such as https://app.example.com" },
        property_keys: {
          flags: "--property <key...>",
          description: "properties of the group that the session shows to its bearer; default: none",
        },
        claims: { flags: "--claims <json>", description: "further claims: a JSON object, or a file with one" },
      },
      secret: ({ session: token, id, expireTime, refreshTime }, { audience }) => ({
        token,
        sentence: `Created the viewer session ${id} for ${audience}. It expires at ${timeText(expireTime)}; create the next one at ${timeText(refreshTime)}. It cannot be shown again. The session`,
        ifLost: "run it again: it creates another session",
      }),
    },
  ),
  revoke: rpcCommand(
    revokeViewerSessions,
    "revoke the viewer sessions of a user group, or of one viewer; the tokens of the group stay valid",
    {
      fields: {
        // An empty viewer id would revoke the sessions of the whole group.
        viewer_id: {
          flags: "--viewer <id>",
          description: "only this viewer; default: the whole group",
          isFilled: true,
        },
      },
      confirm: ({ userGroupId, viewerId }) => {
        const whose = whoseSessions(userGroupId, viewerId);
        const consequence = `This revokes all viewer sessions of ${whose}: pages that use one need a new session`;
        return { what: `the viewer sessions of ${whose}`, id: viewerId || userGroupId, consequence };
      },
      done: ({ userGroupId, viewerId }) =>
        `Revoked the viewer sessions of ${whoseSessions(userGroupId, viewerId)}. A back end that verifies sessions by itself accepts each until it expires.`,
    },
  ),
});

/** `ugs viewer ...` */
export const viewerCommands = commandGroup({
  resolve: rpcCommand(resolveViewer, "show the user group of a token or a viewer session; exit code 3 if it has none", {
    fields: {
      token: {
        flags: "--from-file <file>",
        description: "a file with the token or session; default: a prompt, or standard input",
        secret: "User group token or viewer session",
        isAsked: true,
      },
      audience: {
        flags: "--audience <text>",
        description: "accept a viewer session only if it has this audience",
        isFilled: true,
      },
    },
  }),
  session: (command, shell) => SESSIONS(command.description("viewer sessions: create, revoke"), shell),
});

function whoseSessions(userGroupId: string, viewerId: string | undefined): string {
  return viewerId ? `the viewer ${viewerId} of ${userGroupId}` : userGroupId;
}
