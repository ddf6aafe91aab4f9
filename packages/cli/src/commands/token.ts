import {
  AdminService,
  LookupApiTokenResponse_Source as Source,
} from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type ApiToken, Role, RoleSchema } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { enumText } from "../../../operator/src/fields.ts";
import { timeText } from "../../../operator/src/times.ts";
import { isNotFound } from "../failures.ts";
import { readToken } from "../secret-input.ts";
import { connect } from "../session.ts";
import { commandGroup, runs } from "./command.ts";
import { FieldOption, rpcCommand } from "./rpc-command.ts";
import { showGroupsOf } from "./token-lookup.ts";

const { createApiToken, listApiTokens, updateApiToken, rotateApiToken, revokeApiToken, lookupApiToken } =
  AdminService.method;

/** Matches texts that cannot be API tokens: user group tokens, and texts of more than 512 characters. */
const NO_API_TOKEN = /^ugt_|^.{513}/s;

/** Describes the tokens that the bearer of an API token could read, and the command that revokes these tokens. */
function exposure(environment: string | undefined): string {
  const command = `ugs group revoke --all${environment === undefined ? "" : ` --env ${environment}`}`;
  return `could read the token of every user group. To revoke all of these tokens: ${command}`;
}

export const tokenCommands = commandGroup("API tokens", {
  create: rpcCommand(createApiToken, "create an API token; shows its secret once, or writes it to the file of --out", {
    fields: {
      display_name: new FieldOption(
        "--name <text>",
        "the display name, such as the name of the back end that uses the token",
      ).makeOptionMandatory(),
      role: new FieldOption("--role <role>", "the permissions of the API token").makeOptionMandatory(),
      expire_time: new FieldOption(
        "--expires <when>",
        "a time, a date, or a duration from now such as 90d; default: the expiry time of the token that ugs uses",
      ),
    },
    secret: ({ apiToken, token }) => ({
      token,
      sentence: `${describe(apiToken)}. The secret cannot be shown again. The secret`,
      ifLost: rotateAgain(apiToken?.id ?? ""),
    }),
  }),
  list: rpcCommand(listApiTokens, "list API tokens without their secrets", {
    fields: {
      creator: new FieldOption("--creator <id>", "only API tokens of this creator: the id of an API token, or `root`"),
      role: new FieldOption("--role <role>", "only API tokens of this role"),
    },
    columns: ["id", "display_name", "role", "last_use_time", "expire_time", "creator"],
    none: "No API tokens were found.",
  }),
  update: rpcCommand(updateApiToken, "change the name or the expiry time of an API token", {
    fields: {
      display_name: new FieldOption("--name <text>", "the display name"),
      expire_time: new FieldOption("--expires <when>", "a time, a date, a duration from now such as 90d, or `never`"),
    },
  }),
  rotate: rpcCommand(
    rotateApiToken,
    "replace the secret of an API token; shows the new secret once, or writes it to the file of --out",
    {
      fields: {
        previous_token_ttl: new FieldOption(
          "--grace <duration>",
          "how long the old secret stays valid, at most 30d; default: the old secret is revoked at once",
        ),
      },
      secret: ({ apiToken, token }, { apiTokenId }) => {
        const until = timeText(apiToken?.graceExpireTime);
        const old = until === undefined ? "The old secret is revoked" : `The old secret is valid until ${until}`;
        const sentence = `${describe(apiToken)}. ${old}. The new secret cannot be shown again. The secret`;
        return { token, sentence, ifLost: rotateAgain(apiTokenId) };
      },
    },
  ),
  revoke: rpcCommand(revokeApiToken, "revoke an API token", {
    fields: {
      revoke_issued: new FieldOption(
        "--issued",
        "also revoke all API tokens that this API token created or rotated, directly or indirectly",
      ),
    },
    confirm: ({ apiTokenId: id, revokeIssued }) => ({
      id,
      consequence: `This revokes the API token ${id}${revokeIssued ? ", and every API token that it issued" : ""}: the bearer of a revoked API token can no longer call the service`,
    }),
    done: (_, { revokedCount }) => `Revoked ${revokedCount} API ${revokedCount === 1 ? "token" : "tokens"}.`,
    note: (_, { environment }) =>
      `If the API token leaked and had the role read, manage or admin, its bearer ${exposure(environment && formatEnvironmentName(environment))}`,
  }),

  lookup: (command, shell) => {
    command
      .description("identify a leaked credential: ADMIN_TOKEN, an API token, a user group token or a viewer session")
      .option("--from-file <file>", "a file with the secret; default: a prompt, or standard input");
    runs(command, shell, async (session, { fromFile }: { readonly fromFile?: string }) => {
      const { admin } = await connect(session);
      const text = await readToken(shell, "Token or viewer session", fromFile);
      const lookUp = async () =>
        admin.lookupApiToken({ token: text }).catch((error: unknown) => {
          if (text.startsWith("ugk_") || !isNotFound(error)) throw error;
          return undefined;
        });
      const found = NO_API_TOKEN.test(text) ? undefined : await lookUp();
      // ADMIN_TOKEN and the tokens of API_TOKENS may have any form, even the form of a viewer session. Only a call of
      // LookupApiToken shows whether the text is an API token.
      if (!found) return showGroupsOf(session, { admin, token: text });
      const { apiToken, environment, source } = found;
      const env = environment && formatEnvironmentName(environment);
      await session.out.record(lookupApiToken.output, found);
      if (source === Source.ISSUED)
        session.out.note(`To revoke it: ugs token revoke ${apiToken?.id} --issued --env ${env}`);
      if (apiToken?.role !== Role.RESOLVE) session.out.note(`Its bearer ${exposure(env ?? "NAME/TAG")}`);
    });
  },
});

function rotateAgain(id: string): string {
  return `run: ugs token rotate ${id}, which creates another secret`;
}

function describe(apiToken: ApiToken | undefined): string {
  if (!apiToken) return "The API token is created";
  const { id, displayName, role, expireTime } = apiToken;
  return `API token ${id}, "${displayName}", role ${enumText(RoleSchema, role)}, expires ${timeText(expireTime) ?? "never"}`;
}
