import { randomUUID } from "node:crypto";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type UserGroupInfo, UserGroupInfoSchema } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import type { UserGroup } from "../../../../gen/usergroup/v1/user_group_pb.ts";
import { UserGroupService } from "../../../../gen/usergroup/v1/user_group_service_pb.ts";
import { groupFieldsOf, isJsonField, isTimeField } from "../../../operator/src/fields.ts";
import { durationIn, quoted, timeIn } from "../../../operator/src/input.ts";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import type { ColumnOf } from "../output/table.ts";
import { confirm } from "../questions.ts";
import { connect } from "../session.ts";
import { revokeGroups } from "../transfer/revoke-groups.ts";
import { commandGroup, runs } from "./command.ts";
import { environmentOf, environmentOption, nonEmpty, type Options, yesOption } from "./options.ts";
import { againWith, type FieldInputs, FieldOption, repeatable, rpcCommand } from "./rpc-command.ts";

const { getUserGroup, updateUserGroup, rotateUserGroupToken } = UserGroupService.method;
const { listUserGroups, lookupUserGroup, deleteUserGroup, suspendUserGroup, resumeUserGroup } = AdminService.method;

const FIELDS: FieldInputs = Object.fromEntries(
  groupFieldsOf(updateUserGroup.input).map((field) => {
    const { name } = field;
    const [value, description] = isTimeField(field)
      ? ["<when>", "when to suspend the group: a time, a date, a duration from now such as 14d, or `never`"]
      : field.fieldKind === "map"
        ? ["<schema=source...>", `the complete ${name} of the group; replaces all existing entries`]
        : isJsonField(field)
          ? ["<json>", `the ${name} of the group: a JSON object, or a file with a JSON object`]
          : ["<text>", `the ${name} of the group`];
    return [name, new FieldOption(`--${name.replaceAll("_", "-")} ${value}`, description)];
  }),
);

const ETAG = new FieldOption("--etag <etag>", "make the change only if the group still has this etag");

const REQUEST_ID = new FieldOption(
  "--request-id <id>",
  "makes a retry safe: within 24 hours, the service makes a change with this id at most once",
);

/**
 * Returns the token to show.
 *
 * @param done a clause that states what the call did, such as `the group was created`
 * @throws Failure if the group is suspended. The message ends with `done`
 */
function tokenOf({ token, providedId, suspension }: UserGroup, done: string): string {
  if (!suspension) return token;
  throw new Failure(`the user group ${providedId} is suspended, so its token is not shown; ${done}`, {
    exitCode: EXIT.conflict,
    hint: `to show the token after the suspension, run: ugs group create ${quoted(providedId)}`,
  });
}

const STATE: ColumnOf = {
  name: "STATE",
  of: (group) => {
    const { suspension } = group as UserGroupInfo;
    return suspension === undefined ? "active" : suspension.reason === "EXPIRED" ? "expired" : "suspended";
  },
};

export const groupCommands = commandGroup("user groups", {
  list: rpcCommand(listUserGroups, "list user groups by id, without their tokens", {
    fields: {
      provided_id_prefix: new FieldOption("--prefix <text>", "only groups whose ids start with this text"),
      name_contains: new FieldOption(
        "--name-contains <text>",
        "only groups whose names contain this text; the case of ASCII letters does not matter",
      ),
    },
    columns: ["provided_id", "name", STATE, "last_resolve_date", "token_create_time"],
    none: "No user groups were found.",
  }),
  get: rpcCommand(lookupUserGroup, "show a user group without its token; does not create a missing group"),
  create: rpcCommand(
    getUserGroup,
    "create a user group, or find the existing group; shows the token, or writes the token to the file of --out",
    {
      fields: FIELDS,
      part: "user_group",
      secret: ({ userGroup, newUserGroup }, { userGroupId }) => ({
        token: userGroup
          ? tokenOf(userGroup, newUserGroup ? "the group was created" : "the group was not changed")
          : "",
        sentence: newUserGroup
          ? `Created the user group ${userGroupId}. Its token`
          : `The user group ${userGroupId} exists already and was not changed. Its token`,
        ifLost: "run the same command again to show the same token",
      }),
    },
  ),
  update: rpcCommand(updateUserGroup, "change fields of a user group", {
    fields: { ...FIELDS, etag: ETAG },
  }),
  rotate: rpcCommand(
    rotateUserGroupToken,
    "replace the token of a user group; shows the new token, or writes the new token to the file of --out",
    {
      fields: {
        user_group_id: "[id]",
        current_token: new FieldOption(
          "--current-token-file <file>",
          "instead of the id: a file with the current token of the group, or `-` for standard input",
          { secret: "Current token" },
        ),
        previous_token_ttl: new FieldOption(
          "--grace <duration>",
          "how long the old token stays valid, at most 30d; default: ROTATION_GRACE of the service",
        ),
        request_id: REQUEST_ID,
      },
      secret: ({ userGroup }, { requestId }) => ({
        token: userGroup ? tokenOf(userGroup, "the token was replaced") : "",
        sentence: `Replaced the token of the user group ${userGroup?.providedId}. The new token`,
        ifLost: againWith(requestId),
      }),
    },
  ),
  suspend: rpcCommand(
    suspendUserGroup,
    "suspend a user group, or change its suspension: dashboards show nothing until the group is resumed",
    {
      fields: {
        reason: new FieldOption("--reason <text>", "the reason, for operators, at most 256 characters"),
        message: new FieldOption("--message <text>", "the message to show in the page, at most 512 characters"),
        until: new FieldOption(
          "--until <when>",
          "when the suspension ends: a time, a date, or a duration from now such as 7d; default: the suspension lasts until `group resume`",
        ),
      },
    },
  ),
  resume: rpcCommand(
    resumeUserGroup,
    "end the suspension of a user group; the token and the fields of the group do not change",
  ),
  delete: rpcCommand(deleteUserGroup, "delete a user group, and revoke its tokens immediately", {
    fields: { etag: ETAG },
    confirm: ({ userGroupId: id }) => ({
      id,
      consequence: `This permanently deletes the user group ${id}, and revokes its tokens`,
    }),
    done: ({ userGroupId }) => `The user group ${userGroupId} is deleted.`,
  }),

  revoke: (command, shell) => {
    command
      .description(
        "revoke the tokens of one or many user groups; to show the new token of a group, run `ugs group create`",
      )
      .argument("[id]", "the id of one user group; for many groups, give --all or --prefix")
      .option("--all", "all user groups of the environment")
      .option("--prefix <text>", "the user groups whose ids start with this text")
      .option(
        "--before <when>",
        "with --all or --prefix: only tokens created before this time: a time, a date, or a duration before now; default: now",
      )
      .option(
        "--grace <duration>",
        "how long the current token stays valid, at most 30d; default: the token is revoked at once",
      )
      .addOption(REQUEST_ID)
      .addOption(environmentOption())
      .addOption(yesOption());
    runs(command, shell, async (session, userGroupId: string | undefined, options: RevokeOptions) => {
      const { requestId = randomUUID(), yes, all = false, prefix } = options;
      if (Number(userGroupId !== undefined) + Number(all) + Number(prefix !== undefined) !== 1)
        throw usageFailure("give exactly one of ID, --all and --prefix");
      const environment = environmentOf(session, options);
      const previousTokenTtl = options.grace === undefined ? undefined : durationIn("--grace", options.grace);
      if (userGroupId === undefined) {
        if (options.requestId !== undefined)
          throw usageFailure("--request-id is for one group", "to repeat a revocation of many groups, give --before");
        const before = options.before === undefined ? undefined : timeIn("--before", options.before, -1);
        const which = { environment, prefix: prefix === undefined ? prefix : nonEmpty("--prefix", prefix) };
        return revokeGroups(session, { ...which, before, grace: previousTokenTtl, isSure: yes === true });
      }
      if (options.before !== undefined) throw usageFailure("--before needs --all or --prefix");
      const { admin } = await connect(session);
      const consequence = `This revokes all tokens of the user group ${userGroupId}: dashboards that use a revoked token show nothing`;
      await confirm(shell, { id: userGroupId, consequence }, yes);
      const request = { environment, userGroupId, requestId, previousTokenTtl };
      const { userGroup } = await repeatable(request, () => admin.revokeUserGroupTokens(request));
      if (userGroup) await session.out.record(UserGroupInfoSchema, userGroup);
    });
  },
});

interface RevokeOptions extends Options {
  readonly all?: boolean;
  readonly prefix?: string;
  readonly before?: string;
  readonly grace?: string;
  readonly requestId?: string;
}
