import { isApiTokenId, MAX_API_TOKENS, type RevocationListener } from "../../domain/api-token.ts";
import { AT_START, type ChangeBy } from "../../domain/audit.ts";
import { type EnvironmentName, environmentPath } from "../../domain/environment.ts";
import { ApiTokenNotFound } from "../../domain/errors.ts";
import { type Audit, auditedScript } from "../audit/audit.ts";
import { apiTokenKey, apiTokensKey, REVOKED_CHANNEL } from "../keys.ts";
import { ADD_MEMBER, isEmpty, recordsOf } from "../records.ts";
import type { StoreClient } from "../redis/client.ts";
import { changeScript } from "../redis/script.ts";
import { API_TOKEN_FIELD, recordFromHash, type TokenText } from "./api-token-record.ts";

/** How many members of a list are read at most: more than the texts of all API tokens that an environment may have. */
const MAX_LISTED = 10 * MAX_API_TOKENS;

/** How many API tokens are read, or revoked, at once, so that Redis has time for its other callers. */
export const AT_ONCE = 50;

/** In Lua, the members of the list for an id, each `ID DIGEST`: no character of a digest comes after `z`. */
export const LISTED = `local function listed(list, id) return redis.call('ZRANGEBYLEX', list, '[' .. id .. ' ', '(' .. id .. '~') end
`;

/**
 * Changes fields of a record, confirms it, and tells every worker to read it again, if the user of Redis may publish. The
 * record expires at `ends`, in milliseconds since 1970; empty: never; `same`: as before. A replaced text never lasts longer
 * than before.
 * Answers `missing` or `done`.
 */
export const CHANGE = changeScript("ugChangeApiToken", {
  isAlone: true,
  args: ["digest", "ends"],
  lua: `if redis.call('EXISTS', key) == 0 then return {'missing', stamp} end
if rest <= #ARGV then redis.call('HSET', key, spread(ARGV, rest)) end
local last = redis.call('HGET', key, '${API_TOKEN_FIELD.expireTime}')
local is_later = last and (ends == '' or tonumber(ends) and tonumber(ends) > tonumber(last))
if ends ~= 'same' and not (is_later and redis.call('HEXISTS', key, '${API_TOKEN_FIELD.isReplaced}') == 1) then
  last = ends ~= '' and ends
  if last then redis.call('HSET', key, '${API_TOKEN_FIELD.expireTime}', last) else redis.call('HDEL', key, '${API_TOKEN_FIELD.expireTime}') end
end
if last then redis.call('PEXPIREAT', key, last) else redis.call('PERSIST', key) end
redis.pcall('PUBLISH', '${REVOKED_CHANNEL}', digest)
return {'done', stamp}`,
});

/** Ends a text, and tells every worker so, if the user of Redis may publish. Answers `missing` or `done`. */
export const END = changeScript("ugEndApiToken", {
  isAlone: true,
  evenIfFull: true,
  args: ["digest"],
  lua: `local gone = redis.call('DEL', key)
redis.pcall('PUBLISH', '${REVOKED_CHANNEL}', digest)
return {gone > 0 and 'done' or 'missing', stamp}`,
});

/**
 * Takes members off the list of their environment. No event is written where `subject` is empty.
 * Answers `done`, or `missing` when none of them was listed; and what is still listed under the id.
 */
export const UNLIST = auditedScript("ugUnlistApiTokens", {
  evenIfFull: true,
  args: ["id", "subject"],
  lua: `${LISTED}
local gone = 0
for i = rest, #ARGV do gone = gone + redis.call('ZREM', key, ARGV[i]) end
if gone > 0 and subject ~= '' then audit(subject, '') end
return {gone > 0 and 'done' or 'missing', stamp, spread(listed(key, id))}`,
});

/** What API tokens are stored with. */
export interface ApiTokenDeps {
  readonly client: StoreClient;
  /** Told of changes by this process; `followRevocations` tells it of those by others. */
  readonly listener: RevocationListener;
  readonly audit: Audit;
}

/** The texts of API tokens in Redis: the record of each under its digest, and the lists of them, one an environment. */
export class ApiTokenTexts {
  readonly #deps: ApiTokenDeps;

  constructor(deps: ApiTokenDeps) {
    this.#deps = deps;
  }

  /** The texts that are listed under an id. @throws ApiTokenNotFound for what is no id: it may be a token, sent by mistake */
  async of(environment: EnvironmentName, id: string): Promise<readonly TokenText[]> {
    if (!isApiTokenId(id)) throw new ApiTokenNotFound();
    return this.read(environment, await this.#members(environment, `[${id} `, `(${id}~`));
  }

  /** The texts of each id after a given one, in order of the ids. Takes members without a record off the list. */
  async *byId(environment: EnvironmentName, after = ""): AsyncGenerator<readonly TokenText[]> {
    const members = await this.#members(environment, after === "" ? "-" : `(${after}~`, "+");
    const gone: TokenText[] = [];
    try {
      let texts: TokenText[] = [];
      for (let start = 0; start < members.length; start += AT_ONCE) {
        for (const text of await this.read(environment, members.slice(start, start + AT_ONCE))) {
          if (isEmpty(text.record)) {
            gone.push(text);
            continue;
          }
          if (texts[0] && texts[0].id !== text.id) {
            yield texts;
            texts = [];
          }
          texts.push(text);
        }
      }
      if (texts.length > 0) yield texts;
    } finally {
      // What stays listed because this fails does no harm.
      await this.unlist(environment, gone).catch(() => {});
    }
  }

  #members(environment: EnvironmentName, from: string, to: string): Promise<string[]> {
    const range = [apiTokensKey(environment), from, to, "LIMIT", 0, MAX_LISTED] as const;
    return this.#deps.client.run("list-api-tokens", "zrangebylex", range, "not_made");
  }

  /** Reads the records of members of a list. A record that names another environment or id counts as missing. */
  async read(environment: EnvironmentName, members: readonly string[]): Promise<readonly TokenText[]> {
    const texts: TokenText[] = [];
    const path = environmentPath(environment);
    const keyOf = (member: string) => apiTokenKey(member.slice(member.indexOf(" ") + 1));
    for await (const [member, found] of recordsOf(this.#deps.client, members, { operation: "api-tokens", keyOf })) {
      const [id = "", digest = ""] = member.split(" ");
      const record = recordFromHash(found);
      texts.push({ id, digest, record: record.id === id && record.environment === path ? record : {} });
    }
    return texts;
  }

  /** Changes a record. @param ends as `CHANGE` has it. @returns its outcome */
  change(digest: string, ends: string, rest: readonly string[] = []): Promise<string | undefined> {
    const args = { key: apiTokenKey(digest), digest, ends, rest };
    return this.#told(digest, this.#deps.client.change("change-api-token", CHANGE, args));
  }

  /** Ends a text. @returns the outcome of `END` */
  end(digest: string): Promise<string | undefined> {
    return this.#told(digest, this.#deps.client.change("revoke-api-token", END, { key: apiTokenKey(digest), digest }));
  }

  /** Tells the listener of a change, also when it fails: it may be made. @returns its outcome */
  async #told(digest: string, change: Promise<string[]>): Promise<string | undefined> {
    try {
      return (await change)[0];
    } finally {
      this.#deps.listener.revoked(digest);
    }
  }

  /** Takes texts off the list: of one id, or of several when no event is written. @returns as `UNLIST` */
  async unlist(
    environment: EnvironmentName,
    texts: readonly TokenText[],
    { subject, by }: { readonly subject: string; readonly by: ChangeBy } = { subject: "", by: AT_START },
  ): Promise<readonly string[]> {
    if (texts.length === 0) return [];
    return this.#deps.client.change("unlist-api-token", UNLIST, {
      ...{ key: apiTokensKey(environment), id: texts[0]?.id, subject, rest: texts.map(memberOf) },
      ...this.#deps.audit.ofEnvironment(environment, by),
    });
  }

  /** Lists a text that is there, should the list have lost it. */
  async relist(environment: EnvironmentName, text: ListedText): Promise<void> {
    await this.#deps.client.change("list", ADD_MEMBER, { key: apiTokensKey(environment), member: memberOf(text) });
  }
}

/** What the list of an environment has of a text. */
type ListedText = Pick<TokenText, "id" | "digest">;

/** The member of a text in the list of its environment. */
export function memberOf({ id, digest }: ListedText): string {
  return `${id} ${digest}`;
}
