import { type ApiToken, isApiTokenId, MAX_API_TOKENS } from "../../domain/api-token.ts";
import type { ChangeBy } from "../../domain/audit.ts";
import { type Environment, type EnvironmentName, environmentPath } from "../../domain/environment.ts";
import { ApiTokenChanged, ApiTokenNotFound, EnvironmentNotFound, TooManyApiTokens } from "../../domain/errors.ts";
import { MAX_STORE_CALL_MS } from "../../domain/store.ts";
import { apiTokenDigest, newApiToken } from "../../domain/token.ts";
import { auditedScript } from "../audit/audit.ts";
import { ENVIRONMENT_FIELD } from "../environments/environments.ts";
import { apiTokenKey, apiTokensKey, environmentKey } from "../keys.ts";
import { isEmpty } from "../records.ts";
import { changeScript } from "../redis/script.ts";
import {
  API_TOKEN_FIELD,
  type ApiTokenRecord,
  apiTokenFrom,
  currentOf,
  fieldsOf,
  subjectOf,
  type TokenText,
} from "./api-token-record.ts";
import { type ApiTokenDeps, type ApiTokenTexts, LISTED, memberOf } from "./api-token-texts.ts";

/**
 * How long the record of a new text lasts until it is confirmed, in milliseconds: as the calls until then may take, which are
 * ten where the list is full.
 */
export const UNCONFIRMED_MS = 10 * MAX_STORE_CALL_MS;

/** Writes the record of a new text, its fields and values. It expires unless it is confirmed. Answers `done`. */
export const WRITE = changeScript("ugWriteApiToken", {
  isAlone: true,
  args: ["lastsMs"],
  lua: `redis.call('HSET', key, '${API_TOKEN_FIELD.tokenCreateTime}', stamp, spread(ARGV, rest))
redis.call('PEXPIRE', key, lastsMs)
return {'done', stamp}`,
});

/**
 * Lists a text in its environment, whose key is the first and which must have this `number`. `known` are the members that are
 * listed under the id so far, separated by commas; `mostIds` is how many ids may be listed; the event has `subject` and
 * `names`.
 * Answers `missing` when the environment is gone, or is another one by now; `stale` when other members than `known` are listed
 * under the id; `full`; or `done`.
 */
export const LIST = auditedScript("ugListApiToken", {
  args: ["number", "list", "id", "digest", "known", "mostIds", "subject", "names"],
  lua: `${LISTED}
local is_there = redis.call('HEXISTS', key, '${ENVIRONMENT_FIELD.partitions}') == 1
if not is_there or redis.call('HGET', key, '${ENVIRONMENT_FIELD.number}') ~= number then return {'missing', stamp} end
if table.concat(listed(list, id), ',') ~= known then return {'stale', stamp} end
if known == '' and redis.call('ZCARD', list) >= tonumber(mostIds) then
  local ids, last = 0, ''
  for _, member in ipairs(redis.call('ZRANGEBYLEX', list, '-', '+')) do
    local of = string.match(member, '^[^ ]*')
    if of ~= last then ids = ids + 1 end
    last = of
  end
  if ids >= tonumber(mostIds) then return {'full', stamp} end
end
redis.call('ZADD', list, '0', id .. ' ' .. digest)
audit(subject, names)
return {'done', stamp}`,
});

/** A text to make. */
interface NewText {
  /** Its record, which lacks the environment. */
  readonly values: ApiTokenRecord;
  /** The id of the principal that makes it. */
  readonly maker: string;
  /** What is listed under its id so far. */
  readonly known: readonly TokenText[];
  readonly by: ChangeBy;
}

/**
 * Makes a text: writes its record, lists it, and lets it last.
 *
 * @throws EnvironmentNotFound, TooManyApiTokens; ApiTokenChanged, ApiTokenNotFound when something ended or changed meanwhile
 */
export async function makeText(
  { client, audit, texts }: ApiTokenDeps & { readonly texts: ApiTokenTexts },
  environment: Environment,
  wanted: NewText,
): Promise<{ readonly apiToken: ApiToken; readonly token: string }> {
  const { values, known, by } = wanted;
  const token = newApiToken();
  const digest = apiTokenDigest(token);
  const ofEnvironment = { partitions: String(environment.partitions), number: String(environment.number) };
  const record = { ...values, environment: environmentPath(environment), ...ofEnvironment };
  const args = { key: apiTokenKey(digest), lastsMs: UNCONFIRMED_MS, rest: fieldsOf(record) };
  const [, now] = await client.prepare("write-api-token", WRITE, args);
  const made: TokenText = { id: record.id ?? "", digest, record: { ...record, tokenCreateTime: now } };
  const list = () =>
    client.prepare("list-api-token", LIST, {
      ...{ key: environmentKey(environment), number: environment.number, list: apiTokensKey(environment) },
      ...{ id: made.id, digest: made.digest },
      ...{ known: known.map(memberOf).join(","), mostIds: MAX_API_TOKENS },
      ...{ subject: subjectOf([made]), names: known.length === 0 ? "" : "token" },
      ...audit.ofEnvironment(environment, by),
    });
  let [outcome] = await list();
  if (outcome === "full") {
    // Those that have expired are listed until somebody looks.
    for await (const _ of texts.byId(environment));
    [outcome] = await list();
  }
  if (outcome === "full") throw new TooManyApiTokens();
  if (outcome === "missing") throw new EnvironmentNotFound();
  if (outcome === "stale") throw new ApiTokenChanged();
  const ended = await endedSince(texts, environment, wanted);
  if (ended) {
    await texts.unlist(environment, [made]);
    throw ended;
  }
  const apiToken = apiTokenFrom([made]);
  // A revocation may have ended it already.
  if ((await texts.change(made.digest, "same")) === "missing" || !apiToken) throw new ApiTokenNotFound();
  return { apiToken, token };
}

/**
 * Checks, once a new text is listed, whether it may stay. The token that creates it may have been revoked since the call
 * began, by a revocation that looked for its creations before this one was listed. And the token that it is a new text
 * of must be unchanged; an update after the listing changes the new text as well.
 *
 * @returns why it may not stay
 */
async function endedSince(
  texts: ApiTokenTexts,
  environment: EnvironmentName,
  { maker, known }: NewText,
): Promise<ApiTokenChanged | ApiTokenNotFound | undefined> {
  if (isApiTokenId(maker) && !currentOf(await texts.of(environment, maker))) return new ApiTokenChanged();
  const current = currentOf(known);
  if (!current) return undefined;
  const [now] = await texts.read(environment, [memberOf(current)]);
  if (!now || isEmpty(now.record)) return new ApiTokenNotFound();
  const { displayName, expireTime } = current.record;
  const isSame = now.record.displayName === displayName && now.record.expireTime === expireTime;
  return isSame ? undefined : new ApiTokenChanged();
}
