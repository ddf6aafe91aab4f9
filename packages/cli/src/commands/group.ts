import { randomUUID } from "node:crypto";
import { type Command, Option } from "commander";
import { type UserGroupInfo, UserGroupInfoSchema } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { type UserGroup, UserGroupSchema } from "../../../../gen/usergroup/v1/user_group_pb.ts";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import { readPlainFile } from "../files.ts";
import { parseJsonObject } from "../json-object.ts";
import { mappingText, propertiesText } from "../output/group.ts";
import type { Facts } from "../output/output.ts";
import type { Column } from "../output/table.ts";
import { timeText } from "../output/words.ts";
import { pagesOf } from "../pages.ts";
import { confirm } from "../questions.ts";
import { readToken } from "../secret-input.ts";
import { connect } from "../session.ts";
import { timeOf, ttlOf } from "../times.ts";
import { revokeGroups } from "../transfer/revoke-groups.ts";
import { type DefineCommand, runs } from "./command.ts";
import {
  type EnvironmentOption,
  environmentOf,
  environmentOption,
  limitOption,
  nonEmpty,
  type OutOptions,
  outFileOf,
  withOut,
  type YesOption,
  yesOption,
} from "./options.ts";

/** The fields of a group that can be cleared. */
const CLEARABLE = ["name", "mapping", "properties"] as const;

/** `ugs group ...` */
export const groupCommands: DefineCommand = (group, shell) => {
  const list = group
    .command("list")
    .description("list user groups by id, without their tokens")
    .option("--prefix <text>", "only those whose ids begin with it")
    .option("--name-contains <text>", "only those whose names contain it; ASCII letters match in either case")
    .addOption(environmentOption())
    .addOption(limitOption());
  runs(list, shell, async (session, options: ListOptions) => {
    const { prefix: providedIdPrefix, nameContains } = options;
    const filter = { environment: environmentOf(session, options), providedIdPrefix, nameContains };
    const { admin } = await connect(session);
    const pages = pagesOf(options.limit, async (page) => {
      const { userGroups, nextPageToken } = await admin.listUserGroups({ ...filter, ...page });
      return { items: userGroups, nextPageToken };
    });
    await session.out.list(UserGroupInfoSchema, COLUMNS, pages);
  });

  const get = group
    .command("get")
    .description("show a user group without its token; creates none")
    .argument("<id>")
    .addOption(environmentOption());
  runs(get, shell, async (session, userGroupId: string, options: EnvironmentOption) => {
    const environment = environmentOf(session, options);
    const { admin } = await connect(session);
    const { userGroup } = await admin.lookupUserGroup({ environment, userGroupId });
    if (userGroup) await session.out.record(UserGroupInfoSchema, userGroup, infoFacts(userGroup));
  });

  const create = withOut(withFields(group.command("create")))
    .description(
      "create a user group, or find the one that there is; shows its token, or writes it to the file of --out",
    )
    .argument("<id>");
  runs(create, shell, async (session, userGroupId: string, options: FieldOptions & OutOptions) => {
    const file = await outFileOf(options);
    const { mapping, properties, name } = await fieldsOf(options);
    const { userGroups } = await connect(session);
    const answer = await userGroups.getUserGroup({ userGroupId, name, mapping, properties });
    const { token = "" } = answer.userGroup ?? {};
    const what = answer.newUserGroup
      ? `The user group ${userGroupId} is created`
      : `There is a user group ${userGroupId}, which was left as it is`;
    const secret = { token, said: `${what}. Its token`, lost: "run it again, which shows it again", file };
    await session.out.secret(UserGroupSchema, answer.userGroup as UserGroup, secret);
  });

  const update = withFields(group.command("update"))
    .description("change fields of a user group")
    .argument("<id>")
    .addOption(new Option("--clear <field...>", "fields to make empty").choices(CLEARABLE))
    .option("--etag <etag>", "only if the group still has this etag");
  runs(update, shell, async (session, userGroupId: string, options: UpdateOptions) => {
    const { clear = [], etag } = options;
    const fields = await fieldsOf(options);
    const given = CLEARABLE.filter((name) => fields[name] !== undefined);
    const twice = given.find((name) => clear.includes(name));
    if (twice) throw usageFailure(`--clear ${twice} and --${twice} exclude each other`);
    const paths = [...given, ...clear];
    if (paths.length === 0)
      throw usageFailure("nothing is to be changed", "give --name, --mapping, --properties or --clear");
    const { userGroups } = await connect(session);
    const answer = await userGroups.updateUserGroup({ userGroupId, ...fields, updateMask: { paths }, etag });
    const changed = withoutToken(answer.userGroup);
    await session.out.record(UserGroupSchema, changed, groupFacts(changed));
  });

  const rotate = withOut(group.command("rotate"))
    .description("give a user group a new token; shows it, or writes it to the file of --out")
    .argument("[id]", "which group; or the one that has the token of --current-token-file")
    .option("--current-token-file <file>", "a file with the token that the group has now; `-`: standard input")
    .option("--grace <duration>", "how long the token before stays valid, up to 30d; default: as the service is set")
    .addOption(requestIdOption());
  runs(rotate, shell, async (session, id: string | undefined, options: RotateOptions) => {
    const { currentTokenFile: tokenFile, requestId = randomUUID() } = options;
    if ((id === undefined) === (tokenFile === undefined))
      throw usageFailure("one of ID and --current-token-file says which group it is: give one");
    const previousTokenTtl = ttlOf("--grace", options.grace);
    const file = await outFileOf(options);
    const { userGroups } = await connect(session);
    const which =
      tokenFile === undefined
        ? { case: "userGroupId" as const, value: id ?? "" }
        : { case: "currentToken" as const, value: await readToken(shell, "Current token", tokenFile) };
    const again = `run it again with --request-id ${requestId}: it gives the same token, and rotates once`;
    const { userGroup } = await repeatable(again, () =>
      userGroups.rotateUserGroupToken({ group: which, previousTokenTtl, requestId }),
    );
    if (!userGroup) return;
    const said = `The token of the user group ${userGroup.providedId} is replaced. The new token`;
    await session.out.secret(UserGroupSchema, userGroup, { token: userGroup.token, said, lost: again, file });
  });

  const revoke = group
    .command("revoke")
    .description("end the tokens of a user group, or of many; each gets a fresh one, which `group create` shows")
    .argument("[id]", "which group; or --all, or --prefix")
    .option("--all", "all groups of the environment")
    .option("--prefix <text>", "the groups whose ids begin with it")
    .option("--before <when>", "of many: only tokens made before a time, a date, or a duration ago; default: now")
    .option("--grace <duration>", "how long the present token stays valid, up to 30d; default: it ends at once")
    .addOption(requestIdOption())
    .addOption(environmentOption())
    .addOption(yesOption());
  runs(revoke, shell, async (session, userGroupId: string | undefined, options: RevokeOptions) => {
    const { requestId = randomUUID(), yes, all = false, prefix } = options;
    if (Number(userGroupId !== undefined) + Number(all) + Number(prefix !== undefined) !== 1)
      throw usageFailure("one of ID, --all and --prefix says which groups are meant: give one");
    const environment = environmentOf(session, options);
    const previousTokenTtl = ttlOf("--grace", options.grace);
    if (userGroupId === undefined) {
      if (options.requestId !== undefined)
        throw usageFailure("--request-id is for one group", "to repeat it for many, give --before");
      const before = options.before === undefined ? undefined : timeOf("--before", options.before, -1);
      const which = { environment, prefix: prefix === undefined ? prefix : nonEmpty("--prefix", prefix) };
      return revokeGroups(session, { ...which, before, grace: previousTokenTtl, isSure: yes === true });
    }
    if (options.before !== undefined) throw usageFailure("--before goes with --all or --prefix");
    const { admin } = await connect(session);
    const consequence = `This ends all tokens of the user group ${userGroupId}: dashboards that have one show nothing`;
    await confirm(shell, { what: `the tokens of ${userGroupId}`, id: userGroupId, consequence }, yes);
    const again = `run it again with --request-id ${requestId}: it revokes once`;
    const { userGroup } = await repeatable(again, () =>
      admin.revokeUserGroupTokens({ environment, userGroupId, requestId, previousTokenTtl }),
    );
    if (userGroup) await session.out.record(UserGroupInfoSchema, userGroup, infoFacts(userGroup));
  });

  const remove = group
    .command("delete")
    .description("delete a user group; its tokens end at once")
    .argument("<id>")
    .option("--etag <etag>", "only if the group still has this etag")
    .addOption(environmentOption())
    .addOption(yesOption());
  runs(remove, shell, async (session, userGroupId: string, options: DeleteOptions) => {
    const environment = environmentOf(session, options);
    const { admin } = await connect(session);
    const consequence = `This deletes the user group ${userGroupId} for good, and ends its tokens`;
    await confirm(shell, { what: `the user group ${userGroupId}`, id: userGroupId, consequence }, options.yes);
    await admin.deleteUserGroup({ environment, userGroupId, etag: options.etag });
    await session.out.done(`The user group ${userGroupId} is deleted.`);
  });
};

interface ListOptions extends EnvironmentOption {
  readonly prefix?: string;
  readonly nameContains?: string;
  readonly limit?: number;
}

interface FieldOptions {
  readonly name?: string;
  readonly mapping?: readonly string[];
  readonly properties?: string;
}

interface UpdateOptions extends FieldOptions {
  readonly clear?: readonly (typeof CLEARABLE)[number][];
  readonly etag?: string;
}

interface RotateOptions extends OutOptions {
  readonly currentTokenFile?: string;
  readonly grace?: string;
  readonly requestId?: string;
}

interface RevokeOptions extends EnvironmentOption, YesOption {
  readonly all?: boolean;
  readonly prefix?: string;
  readonly before?: string;
  readonly grace?: string;
  readonly requestId?: string;
}

interface DeleteOptions extends EnvironmentOption, YesOption {
  readonly etag?: string;
}

function withFields(command: Command): Command {
  return command
    .option("--name <text>", "its name")
    .option("--mapping <schema=source...>", "its whole mapping, entry by entry")
    .option("--properties <file>", "a file with its properties as a JSON object");
}

function requestIdOption(): Option {
  return new Option(
    "--request-id <id>",
    "to repeat one that may have been made: the same id makes it once in 24 hours",
  );
}

/** The fields of a group that are given. @throws Failure when one is not right */
async function fieldsOf({ name, mapping: entries, properties: file }: FieldOptions) {
  const mapping = entries && Object.fromEntries(entries.map(entryOf));
  const wanted = { source: file ?? "", example: '{"plan":"gold"}' };
  const properties = file === undefined ? undefined : parseJsonObject(await readPlainFile(file), wanted);
  return { name, mapping, properties };
}

function entryOf(text: string): [string, string] {
  const end = text.indexOf("=");
  if (end < 1) throw usageFailure("--mapping takes entries of the form SCHEMA=SOURCE");
  return [text.slice(0, end), text.slice(end + 1)];
}

/** Makes a call with a request id; where its outcome is not known, the failure says how to repeat it. */
async function repeatable<T>(again: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof Failure) || error.detail.exitCode !== EXIT.unavailable) throw error;
    throw new Failure(error.message, { ...error.detail, hint: [error.detail.hint, again].filter(Boolean).join("; ") });
  }
}

/** A copy of a group without its token, for where nobody asked for it. */
function withoutToken(userGroup: UserGroup | undefined): UserGroup {
  return { ...(userGroup as UserGroup), token: "" };
}

function infoFacts(info: UserGroupInfo): Facts {
  return [
    ...groupFacts(info),
    ["last rotation", timeText(info.lastRotationTime)],
    ["token before until", timeText(info.graceExpireTime)],
    ["token imported", info.importedToken ? "yes" : undefined],
  ];
}

function groupFacts(group: UserGroup | UserGroupInfo): Facts {
  return [
    ["group", group.providedId],
    ["name", group.name],
    ["team id", String(group.teamId)],
    ["mapping", mappingText(group.mapping)],
    ["properties", propertiesText(group.properties)],
    ["etag", group.etag],
    ["created", timeText(group.createTime)],
    ["updated", timeText(group.updateTime)],
    ["token since", timeText(group.tokenCreateTime)],
  ];
}

const COLUMNS: readonly Column<UserGroupInfo>[] = [
  { name: "GROUP", of: ({ providedId }) => providedId },
  { name: "NAME", of: ({ name }) => name, isFree: true },
  { name: "UPDATED", of: ({ updateTime }) => timeText(updateTime) },
  { name: "TOKEN SINCE", of: ({ tokenCreateTime }) => timeText(tokenCreateTime) },
];
