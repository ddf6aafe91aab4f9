import { Option } from "commander";
import {
  CreateApiTokenResponseSchema,
  LookupApiTokenResponseSchema,
  RevokeApiTokenResponseSchema,
  RotateApiTokenResponseSchema,
  LookupApiTokenResponse_Source as Source,
} from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type ApiToken, ApiTokenSchema, Role } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import { formatEnvironmentName } from "../environment-name.ts";
import { usageFailure } from "../failures.ts";
import type { Facts } from "../output/output.ts";
import type { Column } from "../output/table.ts";
import { endText, timeText } from "../output/words.ts";
import { pagesOf } from "../pages.ts";
import { confirm } from "../questions.ts";
import { readToken } from "../secret-input.ts";
import { connect } from "../session.ts";
import { timeOf, ttlOf } from "../times.ts";
import { type DefineCommand, runs } from "./command.ts";
import {
  type EnvironmentOption,
  environmentOf,
  environmentOption,
  limitOption,
  type OutOptions,
  outFileOf,
  withOut,
  type YesOption,
  yesOption,
} from "./options.ts";
import { isNotFound, showGroupsOf } from "./token-lookup.ts";

/** The roles of API tokens, as people write them. */
const ROLES: ReadonlyMap<string, Role> = new Map([
  ["resolve", Role.RESOLVE],
  ["read", Role.READ],
  ["manage", Role.MANAGE],
  ["admin", Role.ADMIN],
]);

/** Texts that cannot be API tokens: user group tokens, and what is longer than any API token. */
const NO_API_TOKEN = /^ugt_|^.{513}/s;

/** Says which tokens a leaked API token exposed, and the command that revokes them. The role `resolve` reads none. */
function exposure(environment: string | undefined): string {
  const command = `ugs group revoke --all${environment === undefined ? "" : ` --env ${environment}`}`;
  return `could read the token of every user group. To end all of these tokens: ${command}`;
}

const ROTATE_AGAIN = (id: string) => `run: ugs token rotate ${id}, which makes another one`;

/** `ugs token ...` */
export const tokenCommands: DefineCommand = (token, shell) => {
  const create = withOut(token.command("create"))
    .description("issue an API token, which is shown this once: on standard output, or in the file of --out")
    .requiredOption("--name <text>", "what people call it, such as the back end that has it")
    .addOption(roleOption("what it may do").makeOptionMandatory())
    .option("--expires <when>", "a time, a date, or a duration from now such as 90d; default: when the caller's ends")
    .addOption(environmentOption());
  runs(create, shell, async (session, options: CreateOptions) => {
    const environment = environmentOf(session, options);
    const expireTime = options.expires === undefined ? undefined : timeOf("--expires", options.expires, 1);
    const file = await outFileOf(options);
    const { admin } = await connect(session);
    const role = ROLES.get(options.role) ?? Role.UNSPECIFIED;
    const answer = await admin.createApiToken({ environment, displayName: options.name, role, expireTime });
    const id = answer.apiToken?.id ?? "";
    const said = `${describe(answer.apiToken)}. It cannot be shown again. Its text`;
    const secret = { token: answer.token, said, lost: ROTATE_AGAIN(id), file };
    await session.out.secret(CreateApiTokenResponseSchema, answer, secret);
  });

  const list = token
    .command("list")
    .description("list the API tokens that were issued, without the tokens themselves")
    .option("--creator <id>", "only those that this API token created, or `root`")
    .addOption(roleOption("only those of this role"))
    .addOption(environmentOption())
    .addOption(limitOption());
  runs(list, shell, async (session, options: ListOptions) => {
    const environment = environmentOf(session, options);
    const { admin } = await connect(session);
    const filter = { environment, creator: options.creator, role: ROLES.get(options.role ?? "") };
    const pages = pagesOf(options.limit, async (page) => {
      const { apiTokens, nextPageToken } = await admin.listApiTokens({ ...filter, ...page });
      return { items: apiTokens, nextPageToken };
    });
    await session.out.list(ApiTokenSchema, COLUMNS, pages);
  });

  const update = token
    .command("update")
    .description("change the name or the end of an API token")
    .argument("<id>")
    .option("--name <text>", "what people call it")
    .option("--expires <when>", "a time, a date, a duration from now such as 90d, or `never`")
    .addOption(environmentOption());
  runs(update, shell, async (session, apiTokenId: string, options: EnvironmentOption & UpdateOptions) => {
    const environment = environmentOf(session, options);
    const paths: string[] = [];
    if (options.name !== undefined) paths.push("display_name");
    if (options.expires !== undefined) paths.push("expire_time");
    if (paths.length === 0) throw usageFailure("nothing is to be changed", "give --name, --expires, or both");
    const { expires = "never", name: displayName } = options;
    const expireTime = expires === "never" ? undefined : timeOf("--expires", expires, 1);
    const { admin } = await connect(session);
    const request = { environment, apiTokenId, displayName, expireTime, updateMask: { paths } };
    const { apiToken } = await admin.updateApiToken(request);
    if (apiToken) await session.out.record(ApiTokenSchema, apiToken, facts(apiToken));
  });

  const rotate = withOut(token.command("rotate"))
    .description("give an API token a new text, which is shown this once: on standard output, or in the file of --out")
    .argument("<id>")
    .option("--grace <duration>", "how long the text before stays valid, up to 30d; default: it ends at once")
    .addOption(environmentOption());
  runs(rotate, shell, async (session, apiTokenId: string, options: RotateOptions) => {
    const environment = environmentOf(session, options);
    const previousTokenTtl = ttlOf("--grace", options.grace);
    const file = await outFileOf(options);
    const { admin } = await connect(session);
    const answer = await admin.rotateApiToken({ environment, apiTokenId, previousTokenTtl });
    const until = timeText(answer.apiToken?.graceExpireTime);
    const before = until === undefined ? "The text before has ended" : `The text before is valid until ${until}`;
    const said = `${describe(answer.apiToken)}. ${before}. The new one cannot be shown again. The new text`;
    const secret = { token: answer.token, said, lost: ROTATE_AGAIN(apiTokenId), file };
    await session.out.secret(RotateApiTokenResponseSchema, answer, secret);
  });

  const revoke = token
    .command("revoke")
    .description("end an API token everywhere")
    .argument("<id>")
    .option("--issued", "and all that it created or rotated, those that these did, and so on")
    .addOption(environmentOption())
    .addOption(yesOption());
  runs(revoke, shell, async (session, apiTokenId: string, options: RevokeOptions) => {
    const environment = environmentOf(session, options);
    const { admin } = await connect(session);
    const more = options.issued ? ", and every one that came of it" : "";
    const consequence = `This ends the API token ${apiTokenId}${more}: whoever has it can call no longer`;
    await confirm(shell, { what: `the API token ${apiTokenId}`, id: apiTokenId, consequence }, options.yes);
    const answer = await admin.revokeApiToken({ environment, apiTokenId, revokeIssued: options.issued });
    if (session.out.isJson) await session.out.message(RevokeApiTokenResponseSchema, answer);
    session.out.note(`${answer.revokedCount} API ${answer.revokedCount === 1 ? "token" : "tokens"} ended.`);
    const env = environment && formatEnvironmentName(environment);
    session.out.note(`If it had leaked and its role was read, manage or admin, its bearer ${exposure(env)}`);
  });

  const lookup = token
    .command("lookup")
    .description(
      "what a leaked text is: an API token, also one of the settings, a user group token or a viewer session",
    )
    .option("--from-file <file>", "a file with it; by default it is asked for, or read from standard input");
  runs(lookup, shell, async (session, { fromFile }: { readonly fromFile?: string }) => {
    const { admin } = await connect(session);
    const text = await readToken(shell, "Token or viewer session", fromFile);
    const lookUp = async () =>
      admin.lookupApiToken({ token: text }).catch((error: unknown) => {
        if (text.startsWith("ugk_") || !isNotFound(error)) throw error;
        return undefined;
      });
    const found = NO_API_TOKEN.test(text) ? undefined : await lookUp();
    // A viewer session and a token of another system may have any form, and so may an API token of the settings.
    if (!found) return showGroupsOf(session, text);
    const { apiToken, environment, source, replaced } = found;
    const env = environment && formatEnvironmentName(environment);
    await session.out.record(LookupApiTokenResponseSchema, found, [
      ["source", SOURCES[source]],
      ...(apiToken ? facts(apiToken) : []),
      ["environment", env],
      ["replaced", replaced ? "yes: it is in its grace period" : undefined],
    ]);
    if (source === Source.ISSUED) session.out.note(`To end it: ugs token revoke ${apiToken?.id} --issued --env ${env}`);
    if (apiToken?.role !== Role.RESOLVE) session.out.note(`Its bearer ${exposure(env ?? "NAME/TAG")}`);
  });
};

interface CreateOptions extends EnvironmentOption, OutOptions {
  readonly name: string;
  readonly role: string;
  readonly expires?: string;
}

interface ListOptions extends EnvironmentOption {
  readonly creator?: string;
  readonly role?: string;
  readonly limit?: number;
}

interface UpdateOptions {
  readonly name?: string;
  readonly expires?: string;
}

interface RotateOptions extends EnvironmentOption, OutOptions {
  readonly grace?: string;
}

interface RevokeOptions extends EnvironmentOption, YesOption {
  readonly issued?: boolean;
}

function roleOption(description: string): Option {
  return new Option("--role <role>", description).choices([...ROLES.keys()]);
}

function roleText(role: Role): string {
  for (const [name, value] of ROLES) if (value === role) return name;
  return "";
}

function describe(apiToken: ApiToken | undefined): string {
  if (!apiToken) return "The API token is made";
  const { id, displayName, role, expireTime } = apiToken;
  return `API token ${id}, "${displayName}", of role ${roleText(role)}, expires ${endText(expireTime)}`;
}

function facts(apiToken: ApiToken): Facts {
  return [
    ["token", apiToken.id],
    ["name", apiToken.displayName],
    ["role", roleText(apiToken.role)],
    ["expires", endText(apiToken.expireTime)],
    ["created", timeText(apiToken.createTime)],
    ["created by", apiToken.creator || undefined],
    ["last used", timeText(apiToken.lastUseTime)],
    ["rotated by", apiToken.rotator || undefined],
    ["text since", apiToken.rotator ? timeText(apiToken.tokenCreateTime) : undefined],
    ["text before until", timeText(apiToken.graceExpireTime)],
  ];
}

const SOURCES: { readonly [source in Source]: string } = {
  [Source.UNSPECIFIED]: "not told",
  [Source.ISSUED]: "issued",
  [Source.API_TOKENS]: "the setting API_TOKENS",
  [Source.ADMIN_TOKEN]: "the setting ADMIN_TOKEN",
};

const COLUMNS: readonly Column<ApiToken>[] = [
  { name: "TOKEN", of: ({ id }) => id },
  { name: "NAME", of: ({ displayName }) => displayName, isFree: true },
  { name: "ROLE", of: ({ role }) => roleText(role) },
  { name: "LAST USED", of: ({ lastUseTime }) => timeText(lastUseTime) ?? "not yet" },
  { name: "EXPIRES", of: ({ expireTime }) => endText(expireTime) },
  { name: "CREATED BY", of: ({ creator }) => creator, isFree: true },
];
