import {
  type ApiToken,
  type ApiTokenChange,
  type ApiTokenFilter,
  type ApiTokenRotation,
  type ApiTokenStore,
  isApiTokenId,
  MAX_API_TOKENS,
  MAX_GRACED,
  type NewApiToken,
  newApiTokenId,
  type RevocationListener,
  USE_INTERVAL_MS,
  type ValidApiToken,
} from "../../domain/api-token.ts";
import { AT_START, type ChangeBy } from "../../domain/audit.ts";
import {
  type Environment,
  type EnvironmentName,
  environmentPath,
  parseEnvironmentPath,
} from "../../domain/environment.ts";
import {
  ApiTokenChanged,
  ApiTokenNotFound,
  ApiTokenOutlivesCaller,
  EnvironmentNotFound,
  RecordUnreadable,
  StoreUnavailable,
  TooManyApiTokens,
} from "../../domain/errors.ts";
import type { Page, PageRequest } from "../../domain/store.ts";
import { apiTokenDigest, newApiToken } from "../../domain/token.ts";
import type { Audit } from "../audit/audit.ts";
import { RECORD } from "../audit/audit-trail.ts";
import { ENVIRONMENT_FIELD, environmentFromRecord } from "../environments/environments.ts";
import { apiTokenKey, apiTokensKey, environmentAuditKey, environmentKey, REVOKED_CHANNEL } from "../keys.ts";
import { ADD_MEMBER, inBatches, isEmpty, READ, recordFromAnswer, recordsOf, textOf } from "../records.ts";
import type { StoreClient } from "../redis/client.ts";
import { auditedScript, changeScript } from "../redis/script.ts";
import {
  API_TOKEN_FIELD,
  type ApiTokenRecord,
  apiTokenFrom,
  currentOf,
  fieldsOf,
  isReplaced,
  isWanted,
  recordFromHash,
  subjectOf,
  type TokenText,
} from "./api-token-record.ts";

/** How long the record of a new text lasts until it is confirmed, in milliseconds: longer than any call. */
const UNCONFIRMED_MS = 60_000;

/** How many entries of a list are read at most: more than the texts of all API tokens that an environment may have. */
const MAX_LISTED = 10 * MAX_API_TOKENS;

/** How many API tokens are read, or revoked, at once, so that Redis has time for its other callers. */
const AT_ONCE = 50;

/** The members of the list that are of an id, each `ID DIGEST`: no digest has a character behind `z`. */
const LISTED = `local function listed(list, id) return redis.call('ZRANGEBYLEX', list, '[' .. id .. ' ', '(' .. id .. '~') end
`;

/** Writes the record of a new text, its fields and values, which ends by itself unless it is confirmed. Answers `made`. */
export const WRITE = changeScript("ugWriteApiToken", {
  isAlone: true,
  args: ["lastsMs"],
  lua: `redis.call('HSET', key, '${API_TOKEN_FIELD.tokenCreateTime}', stamp, spread(ARGV, rest))
redis.call('PEXPIRE', key, lastsMs)
return {'made', stamp}`,
});

/**
 * Lists a text in its environment, whose key is the first and which has this `number`; `known` is what is listed under the
 * id so far, separated by commas, `most` how many ids may be listed, `subject` and `names` what the event tells.
 * Answers `missing` when there is no such environment, or another one of its name; `stale` when something else is listed
 * under the id; `full`; or `made`.
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
return {'made', stamp}`,
});

/**
 * Changes fields of a record, confirms it, and tells every worker to read it again. A user who may not publish can still
 * change it. It ends at the time `ends`, in milliseconds since 1970, never where that is empty, and as before where it is
 * `same`; one that is replaced never lasts longer than before.
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

/** Ends a text, and tells every worker so. A user who may not publish can still end it. Answers `missing` or `done`. */
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

/**
 * Notes that an API token is in use, unless there is a note that is younger. Answers `missing`; or `noted`, the id and the
 * environment. No replica is waited for.
 */
export const NOTE_USE = changeScript("ugNoteApiTokenUse", {
  isAlone: true,
  args: ["intervalMs"],
  lua: `local id = redis.call('HGET', key, '${API_TOKEN_FIELD.id}')
if not id then return {'missing', stamp} end
local last = tonumber(redis.call('HGET', key, '${API_TOKEN_FIELD.lastUseTime}') or '0') or 0
if now - last >= tonumber(intervalMs) then redis.call('HSET', key, '${API_TOKEN_FIELD.lastUseTime}', stamp) end
return {'noted', stamp, id, redis.call('HGET', key, '${API_TOKEN_FIELD.environment}') or ''}`,
});

/** What the store is made of. */
export interface RedisApiTokensDeps {
  readonly client: StoreClient;
  /** Told of changes by this process; `RevocationFeed` tells it of those by others. */
  readonly listener: RevocationListener;
  readonly audit: Audit;
}

/**
 * API tokens in Redis. Each text of a token has a complete record under its digest; that record is the truth. The list of
 * the environment has the digests of each id, and is only a hint. Records and list are in different slots, so the order of
 * the steps keeps them consistent:
 *
 * - A record is written before it is listed, and expires unless it gets listed. So no unlisted text stays valid, and a
 *   listed digest without a record is gone for good: no digest is used twice.
 * - A revocation first ends the records, then takes them off the list, until none is listed under the id.
 * - A rotation is listed only if the list still has what it read of the id. So a rotation and a revocation always see each
 *   other.
 * - A text that is used is listed again, in case a failover has lost its entry.
 */
export class RedisApiTokens implements ApiTokenStore {
  readonly #deps: RedisApiTokensDeps;

  constructor(deps: RedisApiTokensDeps) {
    this.#deps = deps;
  }

  async create(environment: Environment, { displayName, role, expireTime, creator }: NewApiToken, by: ChangeBy) {
    const record = { id: newApiTokenId(), displayName, role, creator, expireTime: expireTime?.toString() };
    return this.#make(environment, record, { maker: creator, known: [], by });
  }

  async list(
    environment: EnvironmentName,
    filter: ApiTokenFilter,
    { after, size }: PageRequest,
  ): Promise<Page<ApiToken>> {
    const items: ApiToken[] = [];
    for await (const texts of this.#byId(environment, after)) {
      const apiToken = apiTokenFrom(texts);
      if (!apiToken || !isWanted(apiToken, filter)) continue;
      if (items.length === size) return { items, next: items.at(-1)?.id };
      items.push(apiToken);
    }
    return { items, next: undefined };
  }

  async update(environment: EnvironmentName, id: string, change: ApiTokenChange, by: ChangeBy): Promise<ApiToken> {
    const { displayName, expireTime } = change;
    let texts = await this.#textsOf(environment, id);
    let apiToken = apiTokenFrom(texts);
    if (!apiToken) throw new ApiTokenNotFound();
    const changed = [
      ...(displayName === undefined || displayName === apiToken.displayName ? [] : ["display_name"]),
      ...(expireTime === undefined || (expireTime ?? undefined) === apiToken.expireTime ? [] : ["expire_time"]),
    ];
    if (changed.length === 0) return apiToken;
    await this.#deps.client.prepare("record-audit-event", RECORD, {
      ...{ key: environmentAuditKey(environment), subject: subjectOf(texts), names: changed.join(",") },
      ...this.#deps.audit.ofEnvironment(environment, by),
    });
    const ends = expireTime === undefined ? "same" : `${expireTime ?? ""}`;
    const fields = fieldsOf({ displayName });
    const done = new Set<string>();
    // A rotation may list another text meanwhile, made of what the token was before.
    for (let todo = texts; todo.length > 0; todo = texts.filter(({ digest }) => !done.has(digest))) {
      for (const { digest } of todo) {
        await stepOf(this.#change(digest, ends, fields), done.size > 0);
        done.add(digest);
      }
      texts = await stepOf(this.#textsOf(environment, id), true);
    }
    apiToken = apiTokenFrom(texts);
    if (!apiToken) throw new ApiTokenNotFound();
    return apiToken;
  }

  async rotate(environment: Environment, id: string, rotation: ApiTokenRotation, by: ChangeBy) {
    const { graceMs, rotator, notBeyond = Number.POSITIVE_INFINITY } = rotation;
    const texts = await this.#textsOf(environment, id);
    const current = currentOf(texts);
    const before = apiTokenFrom(texts);
    if (!current || !before) throw new ApiTokenNotFound();
    if (notBeyond < (before.expireTime ?? Number.POSITIVE_INFINITY)) throw new ApiTokenOutlivesCaller();
    const record = {
      ...{ ...current.record, createTime: String(before.createTime), rotator },
      ...{ tokenCreateTime: undefined, isReplaced: undefined, lastUseTime: undefined },
    };
    const answer = await this.#make(environment, record, { maker: rotator, known: texts, by });
    const until = String(answer.apiToken.tokenCreateTime + graceMs);
    const ended = texts.filter(({ record }) => isEmpty(record));
    const older = texts.filter((text) => text !== current && !isEmpty(text.record));
    older.sort((one, other) => endOf(other) - endOf(one));
    for (const [i, text] of [current, ...older].entries()) {
      const isGraced = graceMs > 0 && i < MAX_GRACED;
      const fields = fieldsOf({ isReplaced: "1" });
      const step = isGraced ? this.#change(text.digest, until, fields) : this.#end(text.digest);
      if ((await stepOf(step, true)) === "missing" && text === current) {
        // It was revoked, and the revocation may have missed the new text.
        await stepOf(this.#end(apiTokenDigest(answer.token)), true);
        throw new ApiTokenNotFound();
      }
      if (!isGraced) ended.push(text);
    }
    await this.#unlist(environment, ended).catch(() => {});
    const kept = await stepOf(this.#textsOf(environment, id), true);
    return { ...answer, apiToken: apiTokenFrom(kept) ?? answer.apiToken };
  }

  async revoke(environment: EnvironmentName, id: string, by: ChangeBy, { issued = false } = {}): Promise<number> {
    const own = (await this.#revoke(environment, id, by)) ? 1 : 0;
    const count = own + (issued ? await stepOf(this.#revokeIssued(environment, id, by), own > 0) : 0);
    if (count === 0) throw new ApiTokenNotFound();
    return count;
  }

  async find(digest: string): Promise<ValidApiToken | undefined> {
    // A failure here fails the call before it changes anything.
    const answer = await this.#deps.client.ask("api-token", READ, { key: apiTokenKey(digest) }, "not_made");
    if (answer.length === 0) return undefined;
    const now = Number(answer[1]);
    const hash = recordFromAnswer(answer);
    const record = recordFromHash(hash);
    const id = textOf(record, "id", "an API token");
    const name = parseEnvironmentPath(textOf(record, "environment", `the API token ${id}`));
    const text: TokenText = { id, digest, record };
    const apiToken = apiTokenFrom([text]);
    if (!apiToken || !name) throw new RecordUnreadable(new Error(`the API token ${id} names no environment`));
    const { expireTime = Number.POSITIVE_INFINITY, lastUseTime = Number.NEGATIVE_INFINITY } = apiToken;
    if (expireTime <= now) return undefined;
    return {
      apiToken,
      isReplaced: isReplaced(text),
      environment: environmentFromRecord(name, hash),
      expiresInMs: expireTime - now,
      unusedForMs: now - lastUseTime,
    };
  }

  async noteUse(digest: string): Promise<void> {
    const args = { key: apiTokenKey(digest), intervalMs: USE_INTERVAL_MS };
    const [, , id = "", path = ""] = await this.#deps.client.change("note-api-token-use", NOTE_USE, args);
    const environment = parseEnvironmentPath(path);
    if (environment) await this.#relist(environment, { id, digest });
  }

  async lookUp(digest: string): Promise<ValidApiToken | undefined> {
    const found = await this.find(digest);
    if (found) await this.#relist(found.environment, { id: found.apiToken.id, digest });
    return found;
  }

  /** Lists a text that is there, should the list have lost it. */
  async #relist(environment: EnvironmentName, text: ListedText): Promise<void> {
    await this.#deps.client.change("list", ADD_MEMBER, { key: apiTokensKey(environment), member: memberOf(text) });
  }

  /**
   * Makes a text: writes its record, lists it, and lets it last.
   *
   * @param values of its record, which lacks the environment
   * @param how the id of the token that makes it, and what is listed under its id so far
   * @throws EnvironmentNotFound, TooManyApiTokens; ApiTokenChanged, ApiTokenNotFound when something ended or changed meanwhile
   */
  async #make(
    environment: Environment,
    values: ApiTokenRecord,
    how: { readonly maker: string; readonly known: readonly TokenText[]; readonly by: ChangeBy },
  ): Promise<{ readonly apiToken: ApiToken; readonly token: string }> {
    const { known, by } = how;
    const { client } = this.#deps;
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
        ...this.#deps.audit.ofEnvironment(environment, by),
      });
    let [outcome] = await list();
    if (outcome === "full") {
      // Those that have expired are listed until somebody looks.
      for await (const _ of this.#byId(environment));
      [outcome] = await list();
    }
    if (outcome === "full") throw new TooManyApiTokens();
    if (outcome === "missing") throw new EnvironmentNotFound();
    if (outcome === "stale") throw new ApiTokenChanged();
    const ended = await this.#endedSince(environment, how);
    if (ended) {
      await this.#unlist(environment, [made]);
      throw ended;
    }
    const apiToken = apiTokenFrom([made]);
    // A revocation may have ended it already.
    if ((await this.#change(made.digest, "same")) === "missing" || !apiToken) throw new ApiTokenNotFound();
    return { apiToken, token };
  }

  /**
   * Checks, once a new text is listed, whether it may stay. The token that creates it may have been revoked since the call
   * began, by a revocation that looked for its creations before this one was listed. And the token that it is a new text
   * of must be unchanged; an update after the listing changes the new text as well.
   *
   * @returns why it may not stay
   */
  async #endedSince(
    environment: EnvironmentName,
    { maker, known }: { readonly maker: string; readonly known: readonly TokenText[] },
  ): Promise<ApiTokenChanged | ApiTokenNotFound | undefined> {
    if (isApiTokenId(maker) && !currentOf(await this.#textsOf(environment, maker))) return new ApiTokenChanged();
    const current = currentOf(known);
    if (!current) return undefined;
    const [now] = await this.#read(environment, [memberOf(current)]);
    if (!now || isEmpty(now.record)) return new ApiTokenNotFound();
    const { displayName, expireTime } = current.record;
    const isSame = now.record.displayName === displayName && now.record.expireTime === expireTime;
    return isSame ? undefined : new ApiTokenChanged();
  }

  /** Changes a record. @param ends as `CHANGE` has it. @returns its outcome */
  #change(digest: string, ends: string, rest: readonly string[] = []): Promise<string | undefined> {
    const args = { key: apiTokenKey(digest), digest, ends, rest };
    return this.#told(digest, this.#deps.client.change("change-api-token", CHANGE, args));
  }

  /** Ends a text. @returns the outcome of `END` */
  #end(digest: string): Promise<string | undefined> {
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

  /** Revokes an API token. @returns whether there was one */
  async #revoke(environment: EnvironmentName, id: string, by: ChangeBy): Promise<boolean> {
    let isRevoked = false;
    for (let texts = await this.#textsOf(environment, id); texts.length > 0; ) {
      const living = texts.filter(({ record }) => !isEmpty(record));
      const endings = await Promise.allSettled(living.map(({ digest }) => this.#end(digest)));
      const failed = endings.find((ending) => ending.status === "rejected");
      const isBegun: boolean = isRevoked || endings.some((ending) => ending.status === "fulfilled");
      if (failed) await stepOf(Promise.reject(failed.reason), isBegun);
      const subject: string = isRevoked ? "" : subjectOf(texts);
      const [outcome, , ...left]: readonly string[] = await stepOf(
        this.#unlist(environment, texts, { subject, by }),
        isBegun,
      );
      isRevoked ||= outcome === "done";
      texts = await stepOf(this.#read(environment, left), true);
    }
    return isRevoked;
  }

  /** Revokes all that a token made, that these made, and so on. @returns how many there were */
  async #revokeIssued(environment: EnvironmentName, id: string, by: ChangeBy): Promise<number> {
    const makers = new Set([id]);
    const isIssued = ({ record }: TokenText) =>
      [record.creator, record.rotator].some((maker = "") => makers.has(maker));
    let count = 0;
    // They may make more until every worker knows that they have ended.
    for (;;) {
      const issued: string[] = [];
      for await (const texts of this.#byId(environment)) {
        const issuedId = texts[0]?.id ?? "";
        if (!makers.has(issuedId) && texts.some(isIssued)) issued.push(issuedId);
      }
      if (issued.length === 0) return count;
      const end = (each: string) => stepOf(this.#revoke(environment, each, by), count > 0);
      for await (const revoked of inBatches(issued, AT_ONCE, end)) count += revoked.filter(Boolean).length;
      for (const each of issued) makers.add(each);
    }
  }

  /** Takes texts of one id, or of several where no event is written, off the list. @returns as `UNLIST` */
  async #unlist(
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

  /** What is listed under an id. @throws ApiTokenNotFound for what is no id: it may be a token, sent by mistake */
  async #textsOf(environment: EnvironmentName, id: string): Promise<readonly TokenText[]> {
    if (!isApiTokenId(id)) throw new ApiTokenNotFound();
    return this.#read(environment, await this.#members(environment, `[${id} `, `(${id}~`));
  }

  /** The texts of each id after a given one, in order of the ids. Takes entries without a record off the list. */
  async *#byId(environment: EnvironmentName, after = ""): AsyncGenerator<readonly TokenText[]> {
    const members = await this.#members(environment, after === "" ? "-" : `(${after}~`, "+");
    const gone: TokenText[] = [];
    try {
      let texts: TokenText[] = [];
      for (let start = 0; start < members.length; start += AT_ONCE) {
        for (const text of await this.#read(environment, members.slice(start, start + AT_ONCE))) {
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
      await this.#unlist(environment, gone).catch(() => {});
    }
  }

  #members(environment: EnvironmentName, from: string, to: string): Promise<string[]> {
    const range = [apiTokensKey(environment), from, to, "LIMIT", 0, MAX_LISTED] as const;
    return this.#deps.client.run("list-api-tokens", "zrangebylex", range, "not_made");
  }

  /** Reads the records of members of a list. One that does not name the environment and the id is none of this list. */
  async #read(environment: EnvironmentName, members: readonly string[]): Promise<readonly TokenText[]> {
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
}

/** What the list of an environment has of a text. */
type ListedText = Pick<TokenText, "id" | "digest">;

/** The entry of a text in the list of its environment. */
function memberOf({ id, digest }: ListedText): string {
  return `${id} ${digest}`;
}

/** When a text ends, in milliseconds since 1970. */
function endOf({ record }: TokenText): number {
  return Number(record.expireTime ?? Number.POSITIVE_INFINITY);
}

/** A step of a change. When an earlier step was made, a failure leaves open how much of the change was made. */
function stepOf<T>(step: Promise<T>, isBegun: boolean): Promise<T> {
  return step.catch((error: unknown) => {
    throw isBegun && error instanceof StoreUnavailable ? new StoreUnavailable(error.cause, "unknown") : error;
  });
}
