import type { ChangeBy } from "../../domain/audit.ts";
import { type Environment, partitionOf } from "../../domain/environment.ts";
import { RecordUnreadable, RequestIdReused, TokenReplaced } from "../../domain/errors.ts";
import { newUserGroupToken } from "../../domain/token.ts";
import type { Rotation } from "../../domain/user-group.ts";
import { auditedScript } from "../audit/audit.ts";
import { digest, tokenDigest } from "../encryption/encryption.ts";
import { KEY, partitionPrefix } from "../keys.ts";
import { recordFromAnswer, SET_IF_ABSENT, SET_IF_ABSENT_EVEN_IF_FULL, type StoredRecord, textOf } from "../records.ts";
import type { StoreClient } from "../redis/client.ts";
import { CHANGED, DROP, ENTRY, FIELD, INDEXED, PIECES, REPLACE } from "./fields.ts";
import { forgetLater, keptFor } from "./foreign-tokens.ts";
import type { GroupDeps } from "./group-record.ts";
import { changeAt, FIND, searchFor } from "./targets.ts";

/** How long what a rotation under a request id made is kept for retries, in milliseconds. */
export const REQUEST_TTL_MS = 24 * 60 * 60 * 1000;

const rotation = {
  made: ["done", "replayed"],
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
${FIND}local before = last_change(group)
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

/**
 * Gives a group a new token of ours, `text`, encrypted under the key `keyId`. The group is the one with the `id`; without
 * an `id`, the one that the partition's indexes give for `old`. It must have the token `old`, unless that is empty. For
 * retries, the result is kept under the digest of the request id, with the digest of the request's parameters.
 * Answers `missing`; `elsewhere` and the id of a group of another partition that may have the token; `unreadable` when the
 * record is not whole; `replayed`, the parameters of the first rotation under the request id and the digest of the token
 * that it made; or `done` and `endedEntry`: as fields, the last two with the id and the record as it is now.
 */
export const ROTATE = auditedScript("ugRotate", rotation);

/** As `ROTATE`, to revoke a leaked token: it works even when Redis' memory is full. */
const REVOKE = auditedScript("ugRevoke", { ...rotation, evenIfFull: true });

/** Who rotates, and whether it is a revocation, which is made even when Redis' memory is full. */
interface RotationOptions {
  readonly by: ChangeBy;
  readonly isRevocation?: boolean;
}

/**
 * Gives a group a new token, as `UserGroupStore.rotate` and `UserGroupAdminStore.revokeTokens`.
 *
 * @returns the group's record, and Redis' clock
 */
export async function rotate(
  deps: GroupDeps,
  environment: Environment,
  rotation: Rotation,
  options: RotationOptions,
): Promise<{ readonly record: StoredRecord; readonly now: number }> {
  const { client, cipher, audit } = deps;
  const { target, graceMs, requestId } = rotation;
  const { by, isRevocation } = options;
  const search = searchFor(environment, target);
  const { request, fingerprint } = requestId
    ? await tieRequest(client, environment, { ...rotation, requestId }, options)
    : { request: "", fingerprint: "" };
  const answer = await changeAt(environment, search, (at, partition) => {
    const token = newUserGroupToken(partition);
    const newDigest = tokenDigest(token);
    const { text, keyId } = cipher.encrypt(environment, token, newDigest);
    return client.change("rotate", isRevocation ? REVOKE : ROTATE, {
      ...{ ...at, digest: newDigest, text, keyId, graceMs, request, fingerprint, keepMs: REQUEST_TTL_MS },
      ...audit.ofPartition(at.prefix, by),
    });
  });
  const record = recordFromAnswer(answer);
  const rotated = { record, now: Number(answer[1]) };
  switch (answer[0]) {
    case "replayed":
      if (record[FIELD.fingerprint] !== fingerprint) throw new RequestIdReused();
      // A revocation has done what it was to do, whatever came after it.
      if (!isRevocation && record[FIELD.madeDigest] !== record[FIELD.digest]) throw new TokenReplaced();
      return rotated;
    case "done": {
      // A retry by the old token has to find the partition that has the answer.
      const keepMs = Math.max(keptFor(graceMs), request === "" ? 0 : REQUEST_TTL_MS);
      const ended = { id: textOf(record, FIELD.providedId), entry: textOf(record, FIELD.endedEntry), keepMs };
      forgetLater(client, environment, ended);
      return rotated;
    }
    default:
      throw new RecordUnreadable(new Error(`rotate: ${answer[0]}`), "not_made");
  }
}

/**
 * Ties a request id to the parameters of the request in the whole environment. What the rotation makes is kept in the group's
 * partition, which another request under the same id need not look at. Replicas are not waited for: the rotation waits for all
 * that is before it on the connection.
 *
 * @returns digests of both: callers choose the id, and it may be a secret, which must not become part of a key
 */
async function tieRequest(
  client: StoreClient,
  environment: Environment,
  { target, askedGraceMs, requestId }: Rotation & { readonly requestId: string },
  { isRevocation }: RotationOptions,
) {
  const presented = target.by === "id" ? target.providedId : target.token;
  // Not the default grace, which may change.
  const repeated = isRevocation
    ? ["revoke", presented, ...(askedGraceMs === undefined ? [] : [askedGraceMs])]
    : [target.by, presented, askedGraceMs ?? null];
  const [request, fingerprint] = [digest(requestId), digest(JSON.stringify(repeated))];
  const prefix = partitionPrefix(environment, partitionOf(environment, request));
  const args = { key: prefix + KEY.requestParameters + request, text: fingerprint, lastsMs: REQUEST_TTL_MS };
  const [, , first] = await client.prepare("claim", isRevocation ? SET_IF_ABSENT_EVEN_IF_FULL : SET_IF_ABSENT, args);
  if (first !== fingerprint) throw new RequestIdReused();
  return { request, fingerprint };
}
