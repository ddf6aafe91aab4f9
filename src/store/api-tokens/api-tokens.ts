import {
  type ApiToken,
  type ApiTokenStore,
  MAX_GRACED,
  newApiTokenId,
  USE_INTERVAL_MS,
} from "../../domain/api-token.ts";
import type { ChangeBy } from "../../domain/audit.ts";
import { type EnvironmentName, parseEnvironmentPath } from "../../domain/environment.ts";
import { ApiTokenNotFound, ApiTokenOutlivesCaller, RecordUnreadable, StoreUnavailable } from "../../domain/errors.ts";
import { apiTokenDigest } from "../../domain/token.ts";
import { RECORD } from "../audit/audit-trail.ts";
import { environmentFromRecord } from "../environments/environments.ts";
import { apiTokenKey, environmentAuditKey } from "../keys.ts";
import { inBatches, isEmpty, READ, recordFromAnswer, textOf } from "../records.ts";
import { changeScript } from "../redis/script.ts";
import {
  API_TOKEN_FIELD,
  apiTokenFrom,
  currentOf,
  fieldsOf,
  isReplaced,
  isWanted,
  recordFromHash,
  subjectOf,
  type TokenText,
} from "./api-token-record.ts";
import { type ApiTokenDeps, ApiTokenTexts, AT_ONCE } from "./api-token-texts.ts";
import { makeText } from "./new-text.ts";

/**
 * Notes that an API token is in use, unless a use within `intervalMs` is noted already. Answers `missing`; or `noted`, the id
 * and the environment. No replica is waited for.
 */
export const NOTE_USE = changeScript("ugNoteApiTokenUse", {
  isAlone: true,
  made: [],
  args: ["intervalMs"],
  lua: `local id = redis.call('HGET', key, '${API_TOKEN_FIELD.id}')
if not id then return {'missing', stamp} end
local last = tonumber(redis.call('HGET', key, '${API_TOKEN_FIELD.lastUseTime}') or '0') or 0
if now - last >= tonumber(intervalMs) then redis.call('HSET', key, '${API_TOKEN_FIELD.lastUseTime}', stamp) end
return {'noted', stamp, id, redis.call('HGET', key, '${API_TOKEN_FIELD.environment}') or ''}`,
});

/**
 * API tokens in Redis. Each text of a token has a complete record under its digest; that record is the truth. The list of
 * the environment has the digests of each id, and is only a hint. Records and list are in different slots, so the order of
 * the steps keeps them consistent:
 *
 * - A record is written before it is listed, and expires unless it gets listed (`new-text.ts`). So no unlisted text stays
 *   valid, and a listed digest without a record is gone for good: no digest is used twice.
 * - A revocation first ends the records, then takes them off the list, until none is listed under the id.
 * - A rotation is listed only if the list still has what it read of the id. So a rotation and a revocation always see each
 *   other.
 * - A text that is used is listed again, in case a failover has lost its member.
 */
export function redisApiTokens(deps: ApiTokenDeps): ApiTokenStore {
  const { client, audit } = deps;
  const texts = new ApiTokenTexts(deps);
  const making = { ...deps, texts };

  /** Revokes an API token. @returns whether there was one */
  const revokeOne = async (environment: EnvironmentName, id: string, by: ChangeBy): Promise<boolean> => {
    let isRevoked = false;
    for (let found = await texts.of(environment, id); found.length > 0; ) {
      const living = found.filter(({ record }) => !isEmpty(record));
      const endings = await Promise.allSettled(living.map(({ digest }) => texts.end(digest)));
      const failed = endings.find((ending) => ending.status === "rejected");
      const isBegun: boolean = isRevoked || endings.some((ending) => ending.status === "fulfilled");
      if (failed) await stepOf(Promise.reject(failed.reason), isBegun);
      const subject: string = isRevoked ? "" : subjectOf(found);
      const [outcome, , ...left]: readonly string[] = await stepOf(
        texts.unlist(environment, found, { subject, by }),
        isBegun,
      );
      isRevoked ||= outcome === "done";
      found = await stepOf(texts.read(environment, left), true);
    }
    return isRevoked;
  };

  /** Revokes all that a token made, that these made, and so on. @returns how many there were */
  const revokeIssued = async (environment: EnvironmentName, id: string, by: ChangeBy): Promise<number> => {
    const makers = new Set([id]);
    const isIssued = ({ record }: TokenText) =>
      [record.creator, record.rotator].some((maker = "") => makers.has(maker));
    let count = 0;
    // They may make more until every worker knows that they have ended.
    for (;;) {
      const issued: string[] = [];
      for await (const found of texts.byId(environment)) {
        const issuedId = found[0]?.id ?? "";
        if (!makers.has(issuedId) && found.some(isIssued)) issued.push(issuedId);
      }
      if (issued.length === 0) return count;
      const end = (each: string) => stepOf(revokeOne(environment, each, by), count > 0);
      for await (const revoked of inBatches(issued, AT_ONCE, end)) count += revoked.filter(Boolean).length;
      for (const each of issued) makers.add(each);
    }
  };

  const find: ApiTokenStore["find"] = async (digest) => {
    // A failure here fails the call before it changes anything.
    const answer = await client.ask("api-token", READ, { key: apiTokenKey(digest) }, "not_made");
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
  };

  return {
    find,

    async create(environment, { displayName, role, expireTime, creator }, by) {
      const values = { id: newApiTokenId(), displayName, role, creator, expireTime: expireTime?.toString() };
      return makeText(making, environment, { values, maker: creator, known: [], by });
    },

    async list(environment, filter, { after, size }) {
      const items: ApiToken[] = [];
      for await (const found of texts.byId(environment, after)) {
        const apiToken = apiTokenFrom(found);
        if (!apiToken || !isWanted(apiToken, filter)) continue;
        if (items.length === size) return { items, next: items.at(-1)?.id };
        items.push(apiToken);
      }
      return { items, next: undefined };
    },

    async update(environment, id, { displayName, expireTime }, by) {
      let found = await texts.of(environment, id);
      let apiToken = apiTokenFrom(found);
      if (!apiToken) throw new ApiTokenNotFound();
      const changed = [
        ...(displayName === undefined || displayName === apiToken.displayName ? [] : ["display_name"]),
        ...(expireTime === undefined || (expireTime ?? undefined) === apiToken.expireTime ? [] : ["expire_time"]),
      ];
      if (changed.length === 0) return apiToken;
      await client.prepare("record-audit-event", RECORD, {
        ...{ key: environmentAuditKey(environment), subject: subjectOf(found), names: changed.join(",") },
        ...audit.ofEnvironment(environment, by),
      });
      const ends = expireTime === undefined ? "same" : `${expireTime ?? ""}`;
      const fields = fieldsOf({ displayName });
      const done = new Set<string>();
      // A rotation may list another text meanwhile, made of what the token was before.
      for (let todo = found; todo.length > 0; todo = found.filter(({ digest }) => !done.has(digest))) {
        for (const { digest } of todo) {
          await stepOf(texts.change(digest, ends, fields), done.size > 0);
          done.add(digest);
        }
        found = await stepOf(texts.of(environment, id), true);
      }
      apiToken = apiTokenFrom(found);
      if (!apiToken) throw new ApiTokenNotFound();
      return apiToken;
    },

    async rotate(environment, id, { graceMs, rotator, notBeyond = Number.POSITIVE_INFINITY }, by) {
      const found = await texts.of(environment, id);
      const current = currentOf(found);
      const before = apiTokenFrom(found);
      if (!current || !before) throw new ApiTokenNotFound();
      if (notBeyond < (before.expireTime ?? Number.POSITIVE_INFINITY)) throw new ApiTokenOutlivesCaller();
      const values = {
        ...{ ...current.record, createTime: String(before.createTime), rotator },
        ...{ tokenCreateTime: undefined, isReplaced: undefined, lastUseTime: undefined },
      };
      const answer = await makeText(making, environment, { values, maker: rotator, known: found, by });
      const until = String(answer.apiToken.tokenCreateTime + graceMs);
      const ended = found.filter(({ record }) => isEmpty(record));
      const older = found.filter((text) => text !== current && !isEmpty(text.record));
      older.sort((one, other) => endOf(other) - endOf(one));
      for (const [i, text] of [current, ...older].entries()) {
        const isGraced = graceMs > 0 && i < MAX_GRACED;
        const fields = fieldsOf({ isReplaced: "1" });
        const step = isGraced ? texts.change(text.digest, until, fields) : texts.end(text.digest);
        if ((await stepOf(step, true)) === "missing" && text === current) {
          // It was revoked, and the revocation may have missed the new text.
          await stepOf(texts.end(apiTokenDigest(answer.token)), true);
          throw new ApiTokenNotFound();
        }
        if (!isGraced) ended.push(text);
      }
      await texts.unlist(environment, ended).catch(() => {});
      const kept = await stepOf(texts.of(environment, id), true);
      return { ...answer, apiToken: apiTokenFrom(kept) ?? answer.apiToken };
    },

    async revoke(environment, id, by, { issued = false } = {}) {
      const own = (await revokeOne(environment, id, by)) ? 1 : 0;
      const count = own + (issued ? await stepOf(revokeIssued(environment, id, by), own > 0) : 0);
      if (count === 0) throw new ApiTokenNotFound();
      return count;
    },

    async noteUse(digest) {
      const args = { key: apiTokenKey(digest), intervalMs: USE_INTERVAL_MS };
      const [, , id = "", path = ""] = await client.change("note-api-token-use", NOTE_USE, args);
      const environment = parseEnvironmentPath(path);
      if (environment) await texts.relist(environment, { id, digest });
    },

    async lookUp(digest) {
      const found = await find(digest);
      if (found) await texts.relist(found.environment, { id: found.apiToken.id, digest });
      return found;
    },
  };
}

/** When a text ends, in milliseconds since 1970. */
function endOf({ record }: TokenText): number {
  return Number(record.expireTime ?? Number.POSITIVE_INFINITY);
}

/** A step of a change. When an earlier step was made, a failure leaves open how much of the change was made. */
function stepOf<T>(step: Promise<T>, isBegun: boolean): Promise<T> {
  return step.catch((error: unknown) => {
    throw isBegun && error instanceof StoreUnavailable ? error.withOutcome("unknown") : error;
  });
}
