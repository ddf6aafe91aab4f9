import type { ChangeBy } from "../domain/audit.ts";
import { type Environment, partitionOf } from "../domain/environment.ts";
import {
  RecordUnreadable,
  RequestIdReused,
  TokenNotFound,
  TokenReplaced,
  UserGroupNotFound,
} from "../domain/errors.ts";
import { newUserGroupToken } from "../domain/token.ts";
import type { Rotation } from "../domain/user-group.ts";
import { digest, tokenDigest } from "./encryption.ts";
import { CHANGED, DROP, ENTRY, FIELD, INDEXED, PIECES, REPLACE } from "./fields.ts";
import { forgetLater, keptFor, tokenPartition } from "./foreign-tokens.ts";
import type { GroupParts } from "./group-record.ts";
import { KEY, partitionPrefix, prefixFor, REQUEST_TTL_MS, requestClaimKey, tokensKey } from "./keys.ts";
import { CLAIM, CLAIM_REVOCATION, recordFromAnswer, type StoredRecord, textOf } from "./records.ts";
import { auditedScript } from "./script.ts";

/**
 * Gives a group a new token of ours, `text`, encrypted under the key `keyId`. The group is the one with the `id`, else the
 * one that the partition's indexes tell; it must have the token `old` unless that is empty. What is made is kept under
 * the digest of a request id, with the digest of the request's parameters, for retries.
 * Answers `missing`; `elsewhere` and the id of a group of another partition that may have the token; `unreadable` when the
 * record is not whole; `replayed`, the parameters of the first rotation under the request id and the digest of the token
 * that it made; or `done` and `endedEntry`: as fields, the last two with the id and the record as it is now.
 */
export const ROTATE = auditedScript("ugRotate", rotation());

/** As `ROTATE`, for what ends a token that leaked. */
const REVOKE = auditedScript("ugRevoke", { ...rotation(), evenIfFull: true });

function rotation() {
  return {
    args: ["prefix", "old", "id", "digest", "text", "keyId", "graceMs", "request", "fingerprint", "keepMs"],
    lua: `${INDEXED}${ENTRY}${REPLACE}${DROP}${CHANGED}
local answer_key = prefix .. '${KEY.request}' .. request
if request ~= '' then
  local first = redis.call('HGET', answer_key, '${FIELD.providedId}')
  if first then
    local group = prefix .. '${KEY.group}' .. first
    local record = redis.call('HGETALL', group)
    local team_id = redis.call('HGET', group, '${FIELD.teamId}') or ''
    if #record == 0 or team_id ~= redis.call('HGET', answer_key, '${FIELD.teamId}') then return {'missing', stamp} end
    return {'replayed', stamp, '${FIELD.providedId}', first,
      '${FIELD.fingerprint}', redis.call('HGET', answer_key, '${FIELD.fingerprint}') or '',
      '${FIELD.madeDigest}', redis.call('HGET', answer_key, '${FIELD.digest}') or '', spread(record)}
  end
end
if id == '' then
  id = redis.call('HGET', key, indexed(old))
  local held = not id and held_by(prefix, old)
  if held then return {'elsewhere', stamp, '${FIELD.providedId}', held} end
  if not id then return {'missing', stamp} end
end
local group = prefix .. '${KEY.group}' .. id
local current = redis.call('HGET', group, '${FIELD.digest}')
if old ~= '' and current ~= old then return {'missing', stamp} end
local before = last_change(group)
if not current or not before then
  return {redis.call('EXISTS', group) == 1 and 'unreadable' or 'missing', stamp}
end
if not tonumber(before) then return {'unreadable', stamp} end
local changed = after(tonumber(before))
local ended = replace(prefix, group, id, digest, true, graceMs)
redis.call('HSET', group, '${FIELD.token}', text, '${FIELD.keyId}', keyId,
  '${FIELD.updateTime}', changed, '${FIELD.tokenCreateTime}', changed)
drop(group, '${PIECES.foreignToken}', 0)
if request ~= '' then
  redis.call('HSET', answer_key, '${FIELD.fingerprint}', fingerprint, '${FIELD.providedId}', id,
    '${FIELD.teamId}', redis.call('HGET', group, '${FIELD.teamId}') or '', '${FIELD.digest}', digest)
  redis.call('PEXPIRE', answer_key, keepMs)
end
audit(id, 'token')
return {'done', stamp, '${FIELD.providedId}', id, '${FIELD.endedEntry}', ended, spread(redis.call('HGETALL', group))}`,
  } as const;
}

/** A group that was rotated. */
export interface Rotated {
  readonly record: StoredRecord;
  /** Redis' clock. */
  readonly now: number;
}

/** How a group is given a new token. */
interface Replacement {
  readonly partition: number;
  /** Undefined: the partition's indexes tell it. */
  readonly id: string | undefined;
  /** The digest that its token must have; undefined: any. */
  readonly old?: string;
  readonly graceMs: number;
  /** Digest of the request id; callers choose that, and it may be a secret, which must not become part of a key. */
  readonly request: string | undefined;
  /** Digest of what a retry must repeat. */
  readonly fingerprint: string | undefined;
  /** Whether it is to be made even when Redis' memory is full. */
  readonly isRevocation: boolean;
}

/** As `UserGroupStore.rotate`. */
export async function rotate(
  parts: GroupParts,
  environment: Environment,
  { target, graceMs, askedGraceMs, requestId }: Rotation,
  by: ChangeBy,
): Promise<Rotated> {
  // Not the default grace, which may change.
  const parameters = [target.by, target.by === "id" ? target.providedId : target.token, askedGraceMs ?? null];
  const what = {
    ...(target.by === "id" ? placedBy(environment, target.providedId) : foundBy(environment, target.token)),
    ...{ graceMs, isRevocation: false },
    ...requestOf(requestId, parameters),
  };
  const rotated = await claimAndReplace(parts, environment, what, by);
  if (rotated !== undefined) return rotated;
  throw target.by === "id" ? new UserGroupNotFound() : new TokenNotFound();
}

/** As `UserGroupAdminStore.revokeTokens`. */
export async function revokeTokens(
  parts: GroupParts,
  environment: Environment,
  { providedId, requestId }: { readonly providedId: string; readonly requestId: string },
  by: ChangeBy,
): Promise<Rotated> {
  const what = {
    ...placedBy(environment, providedId),
    ...{ graceMs: 0, isRevocation: true },
    ...requestOf(requestId, ["revoke", providedId]),
  };
  const revoked = await claimAndReplace(parts, environment, what, by);
  if (revoked === undefined) throw new UserGroupNotFound();
  return revoked;
}

/**
 * Ties a request id to its parameters in the whole environment, and replaces the token. What that made is kept in the
 * group's partition, which another request under the same id need not look at. Replicas are not waited for: the rotation
 * that follows waits for all that is before it on the connection.
 *
 * @returns undefined when there is no such group, or its token is another one
 */
async function claimAndReplace(parts: GroupParts, environment: Environment, what: Replacement, by: ChangeBy) {
  const { request, fingerprint, isRevocation } = what;
  if (request !== undefined) {
    const key = requestClaimKey(prefixFor(environment, request), request);
    const script = isRevocation ? CLAIM_REVOCATION : CLAIM;
    const [, , first] = await parts.client.prepare("claim", script, {
      key,
      text: fingerprint,
      lastsMs: REQUEST_TTL_MS,
    });
    if (first !== fingerprint) throw new RequestIdReused();
  }
  return replace(parts, environment, what, by);
}

async function replace(
  parts: GroupParts,
  environment: Environment,
  what: Replacement,
  by: ChangeBy,
): Promise<Rotated | undefined> {
  const { client, cipher, audit } = parts;
  const { partition, id, old, graceMs, request, fingerprint, isRevocation } = what;
  const prefix = partitionPrefix(environment, partition);
  const token = newUserGroupToken(partition);
  const newDigest = tokenDigest(token);
  const { text, keyId } = cipher.encrypt(environment, token, newDigest);
  const answer = await client.change("rotate", isRevocation ? REVOKE : ROTATE, {
    ...{ key: tokensKey(prefix), prefix, old, id, digest: newDigest, text, keyId, graceMs },
    ...{ request, fingerprint, keepMs: REQUEST_TTL_MS },
    ...audit.ofPartition(environment, partition, by),
  });
  const record = recordFromAnswer(answer);
  const rotated = { record, now: Number(answer[1]) };
  switch (answer[0]) {
    case "missing":
      return undefined;
    case "elsewhere":
      // The token does not name the partition of its group.
      return replace(parts, environment, { ...what, ...placedBy(environment, textOf(record, FIELD.providedId)) }, by);
    case "replayed":
      if (record[FIELD.fingerprint] !== fingerprint) throw new RequestIdReused();
      // A revocation has done what it was to do, whatever came after it.
      if (!isRevocation && record[FIELD.madeDigest] !== record[FIELD.digest]) throw new TokenReplaced();
      return rotated;
    case "done": {
      // A retry by the old token has to find the partition that has the answer.
      const keepMs = Math.max(keptFor(graceMs), request === undefined ? 0 : REQUEST_TTL_MS);
      const ended = { id: textOf(record, FIELD.providedId), entry: textOf(record, FIELD.endedEntry), keepMs };
      forgetLater(client, environment, ended);
      return rotated;
    }
    default:
      throw new RecordUnreadable(new Error(`rotate: ${answer[0]}`));
  }
}

function requestOf(requestId: string | undefined, parameters: readonly unknown[]) {
  if (!requestId) return { request: undefined, fingerprint: undefined };
  return { request: digest(requestId), fingerprint: digest(JSON.stringify(parameters)) };
}

function placedBy(environment: Environment, id: string) {
  return { partition: partitionOf(environment, id), id };
}

/** @throws TokenNotFound */
function foundBy(environment: Environment, token: string) {
  const old = tokenDigest(token);
  return { partition: tokenPartition(environment, token, old), id: undefined, old };
}
