import { API_TOKEN_SCRIPTS } from "./api-token-scripts.ts";
import { ENVIRONMENT_SCRIPTS } from "./environment-scripts.ts";
import { FIELD, PIECES } from "./fields.ts";
import { FOREIGN_TOKEN_SCRIPTS } from "./foreign-token-scripts.ts";
import { GROUP_ADMIN_SCRIPTS } from "./group-admin-scripts.ts";
import { KEY } from "./keys.ts";
import {
  ALLOW_OOM,
  AUDIT,
  CHANGE,
  CHANGED,
  CLOCK,
  DROP,
  ENTRY,
  GRACE,
  INDEXED,
  REPLACE,
  UNPACK,
} from "./script-parts.ts";

/*
 * Every script takes one key, by which Redis Cluster finds the shard; the other keys it touches share its hash tag.
 * They use plain hash and string commands, take and return flat arrays of strings and report outcomes as the first
 * element, because the embedded store's Lua knows no more.
 *
 * Every change takes its deadline as the first argument, in milliseconds since 1970 by Redis' clock. It may have waited
 * in a socket, or in a Redis that was stopped, until long after its caller was told that it failed. So after the
 * deadline it changes nothing, and answers `late`. The second element of every answer of a change is Redis' clock.
 *
 * Before anything is written a script has read what could be of another type, and every key but its first that it may
 * write to and that may be missing: while a slot is on its way to another node of a Cluster, Redis refuses to look for
 * a key that is missing. Its first write is one that Redis refuses when its memory is full. So what fails, fails before
 * it has changed anything.
 */

/** The scripts that Redis refuses when its memory is full, unless they begin otherwise. */
const ORDINARY = {
  /**
   * Creates a group unless it exists.
   * KEYS: the group. ARGV:
   *  2 prefix of the partition's keys
   *  3 id of the group
   *  4 digest of the token
   *  5 the partition's first team id
   *  6 the step from one of its team ids to the next
   *  7 how many team ids it has
   *  8 names of the fields that are given, for the audit
   *  9 and further: other fields and values of the record; then those of AUDIT
   * Answers `created` and the team id; `found` and the record that is there; `closed` when the environment is deleted; or
   * `full`.
   */
  ugCreate: `${CHANGE}${AUDIT}${UNPACK}${INDEXED}
local record = redis.call('HGETALL', KEYS[1])
if #record > 0 then return {'found', stamp, spread(record)} end
local prefix, id, digest = ARGV[2], ARGV[3], ARGV[4]
local tokens, ids, counter = prefix .. '${KEY.tokens}', prefix .. '${KEY.ids}', prefix .. '${KEY.teamCount}'
if redis.call('EXISTS', prefix .. '${KEY.closed}' .. ARGV[5]) == 1 then return {'closed', stamp} end
local count = tonumber(redis.call('GET', counter) or '0')
if count >= tonumber(ARGV[7]) then return {'full', stamp} end
local team_id = string.format('%.0f', ARGV[5] + (ARGV[6] + 0.0) * count)
redis.call('ZSCORE', ids, id)
redis.call('HSET', tokens, indexed(digest), id)
redis.call('ZADD', ids, '0', id)
redis.call('SET', counter, string.format('%.0f', count + 1))
redis.call('HSET', KEYS[1], '${FIELD.createTime}', stamp, '${FIELD.digest}', digest, '${FIELD.teamId}', team_id,
  spread(ARGV, 9, own))
audit(id, ARGV[8])
return {'created', stamp, team_id}`,

  /**
   * Changes a group.
   * KEYS: the group. ARGV:
   *  2 the update time it must have, or nothing
   *  3 how many of its values in pieces are replaced
   *  4 names of the fields that are replaced, for the audit
   *  5 id of the group
   *  6 and further: the fields of these with the number of the first piece that they have no more, then fields to set with
   *    their values; then those of AUDIT
   * Answers `missing`; `unreadable` when the record is not whole; `stale`; `same` and the record when it has these values
   * already; `done` and the record; or `crowded`, as a field how many older events were dropped, and the record.
   */
  ugUpdate: `${CHANGE}${AUDIT}${UNPACK}${DROP}${CHANGED}
local before = last_change(KEYS[1])
if not before then return {redis.call('EXISTS', KEYS[1]) == 1 and 'unreadable' or 'missing', stamp} end
if not tonumber(before) then return {'unreadable', stamp} end
if ARGV[2] ~= '' and ARGV[2] ~= before then return {'stale', stamp} end
local last = 5 + 2 * tonumber(ARGV[3])
local function is_same()
  for i = last + 1, own, 2 do
    if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1] then return false end
  end
  for i = 6, last, 2 do
    if redis.call('HEXISTS', KEYS[1], ARGV[i] .. ARGV[i + 1]) == 1 then return false end
  end
  return true
end
if is_same() then return {'same', stamp, spread(redis.call('HGETALL', KEYS[1]))} end
redis.call('HSET', KEYS[1], '${FIELD.updateTime}', after(tonumber(before)), spread(ARGV, last + 1, own))
for i = 6, last, 2 do drop(KEYS[1], ARGV[i], tonumber(ARGV[i + 1])) end
local dropped = audit(ARGV[5], ARGV[4])
if dropped == 0 then return {'done', stamp, spread(redis.call('HGETALL', KEYS[1]))} end
return {'crowded', stamp, '${FIELD.dropped}', string.format('%.0f', dropped), spread(redis.call('HGETALL', KEYS[1]))}`,

  /**
   * Gives a group a new token, which is one of ours.
   * KEYS: the token index. ARGV:
   *  2 prefix of the partition's keys
   *  3 digest of the token to rotate, or nothing to rotate by id
   *  4 id of the group; nothing: the partition's indexes tell it
   *  5 digest of the new token
   *  6 the new token, encrypted
   *  7 id of the key that it is encrypted under
   *  8 grace of the old token in milliseconds, 0 for none
   *  9 digest of the request id, or nothing
   * 10 digest of the request's parameters
   * 11 how long to keep for retries what the rotation made, in milliseconds; then those of AUDIT
   * Answers `missing`; `elsewhere` and the id of a group of another partition that may have the token; `unreadable` when the
   * record is not whole; `replayed`, the parameters of the first rotation under the request id and the digest of the token
   * that it made; or `done` and `endedEntry`: as fields, the last two with the id and the record as it is now.
   */
  ugRotate: `${CHANGE}${AUDIT}${UNPACK}${INDEXED}${ENTRY}${REPLACE}${DROP}${CHANGED}
local prefix = ARGV[2]
local by_token = ARGV[3] ~= ''
local answer_key = prefix .. '${KEY.request}' .. ARGV[9]
if ARGV[9] ~= '' then
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
local id = ARGV[4]
if id == '' then
  id = redis.call('HGET', KEYS[1], indexed(ARGV[3]))
  local held = not id and held_by(prefix, ARGV[3])
  if held then return {'elsewhere', stamp, '${FIELD.providedId}', held} end
  if not id then return {'missing', stamp} end
end
local key = prefix .. '${KEY.group}' .. id
local old = redis.call('HGET', key, '${FIELD.digest}')
if by_token and old ~= ARGV[3] then return {'missing', stamp} end
local before = last_change(key)
if not old or not before then
  return {redis.call('EXISTS', key) == 1 and 'unreadable' or 'missing', stamp}
end
if not tonumber(before) then return {'unreadable', stamp} end
local changed = after(tonumber(before))
local ended = replace(prefix, key, id, ARGV[5], true, ARGV[8])
redis.call('HSET', key, '${FIELD.token}', ARGV[6], '${FIELD.keyId}', ARGV[7],
  '${FIELD.updateTime}', changed, '${FIELD.tokenCreateTime}', changed)
drop(key, '${PIECES.foreignToken}', 0)
if ARGV[9] ~= '' then
  redis.call('HSET', answer_key, '${FIELD.fingerprint}', ARGV[10], '${FIELD.providedId}', id,
    '${FIELD.teamId}', redis.call('HGET', key, '${FIELD.teamId}') or '', '${FIELD.digest}', ARGV[5])
  redis.call('PEXPIRE', answer_key, ARGV[11])
end
audit(id, 'token')
return {'done', stamp, '${FIELD.providedId}', id, '${FIELD.endedEntry}', ended,
  spread(redis.call('HGETALL', key))}`,

  /**
   * Sets a string unless it is there.
   * KEYS: the string. ARGV: 2 its text, 3 how long it lasts in milliseconds, or 0 for good.
   * Answers `claimed` and the text that is there now.
   */
  ugClaim: `${CHANGE}
local first = redis.call('GET', KEYS[1])
if not first then
  first = ARGV[2]
  if ARGV[3] == '0' then redis.call('SET', KEYS[1], first)
  else redis.call('SET', KEYS[1], first, 'PX', ARGV[3]) end
end
return {'claimed', stamp, first}`,

  /**
   * Sets those fields of a hash that are missing.
   * KEYS: the hash. ARGV: 2 and further, fields and values.
   * Answers `made` when any was missing, else `found`, and the hash.
   */
  ugAdopt: `${CHANGE}${UNPACK}
local outcome = 'found'
for i = 2, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 0 then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    outcome = 'made'
  end
end
return {outcome, stamp, spread(redis.call('HGETALL', KEYS[1]))}`,

  /**
   * Adds a member to a sorted set whose scores are all 0.
   * KEYS: the sorted set. ARGV: 2 the member.
   * Answers `made`, or `found` when it is there already.
   */
  ugList: `${CHANGE}
if redis.call('ZSCORE', KEYS[1], ARGV[2]) then return {'found', stamp} end
redis.call('ZADD', KEYS[1], '0', ARGV[2])
return {'made', stamp}`,

  /**
   * Writes an audit event that no change goes with.
   * KEYS: the stream. ARGV: 2 id of what it is about, or nothing; 3 names of fields, or nothing; then those of AUDIT.
   * Answers `made`.
   */
  ugRecord: `${CHANGE}${AUDIT}
audit(ARGV[2], ARGV[3])
return {'made', stamp}`,

  /**
   * Finds the group that a token stands for. An index only says where to look:
   * the record has to name the token, and a grace must not be over.
   * KEYS: the token index. ARGV: 1 prefix of the partition's keys, 2 digest of the token.
   * Answers nothing; `elsewhere`, Redis' clock and the id of the group that may have it, of whatever partition; or
   * `current` or `graced`, Redis' clock, the id as a field and the record.
   */
  ugResolve: `${CLOCK}${UNPACK}${INDEXED}${GRACE}${ENTRY}
local groups = ARGV[1] .. '${KEY.group}'
local id = redis.call('HGET', KEYS[1], indexed(ARGV[2]))
local state = id and redis.call('HGET', groups .. id, '${FIELD.digest}') == ARGV[2] and 'current'
if not state then
  id = redis.call('GET', ARGV[1] .. '${KEY.grace}' .. ARGV[2])
  state = id and grace_left(groups .. id, ARGV[2]) > 0 and 'graced'
end
if not state then
  id = held_by(ARGV[1], ARGV[2])
  return id and {'elsewhere', stamp, id} or {}
end
return {state, stamp, '${FIELD.providedId}', id, spread(redis.call('HGETALL', groups .. id))}`,

  /**
   * Adds to a count that lasts for a window of time, which begins with what is counted first. It changes nothing that has
   * to last, so it takes no deadline, and no replica is waited for. A count without an end, which an operator may have
   * made, gets one.
   * KEYS: the count. ARGV: 1 how much, 2 the window in seconds.
   * Answers the count, and when the window ends in milliseconds from now.
   */
  ugCount: `
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  left = ARGV[2] * 1000
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
end
return {string.format('%.0f', count), string.format('%.0f', left)}`,

  ...GROUP_ADMIN_SCRIPTS,
  ...FOREIGN_TOKEN_SCRIPTS,
  ...API_TOKEN_SCRIPTS,
  ...ENVIRONMENT_SCRIPTS,
} as const;

/** The scripts in Lua, by the names that they have as commands of a client. Each takes one key. */
export const SCRIPTS = {
  ...ORDINARY,
  /** As `ugRotate` and `ugClaim`, for what ends a token that leaked. */
  ugRevoke: ALLOW_OOM + ORDINARY.ugRotate,
  ugClaimRevocation: ALLOW_OOM + ORDINARY.ugClaim,
} as const;

/** The outcomes of changes that are made: by this call or, for `replayed`, by an earlier one. */
export const MADE: ReadonlySet<string | undefined> = new Set(["created", "done", "crowded", "made", "replayed"]);
