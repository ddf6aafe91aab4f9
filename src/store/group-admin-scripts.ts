import { FIELD, FOREIGN } from "./fields.ts";
import { KEY } from "./keys.ts";
import { AUDIT, CHANGE, CHANGED, CLOCK, DROP, GRACE, INDEXED, UNPACK } from "./script-parts.ts";

/** The scripts by which operators list, look up and change groups, as `SCRIPTS` has them. */
export const GROUP_ADMIN_SCRIPTS = {
  /**
   * Makes a group as it is given.
   * KEYS: the group. ARGV:
   *  2 the update time it must have; nothing: it must not be there
   *  3 prefix of the partition's keys
   *  4 id of the group
   *  5 digest of the token to give it; nothing: it keeps its own
   *  6 nonce of the claim of that token; nothing: the token is one of ours
   *  7 the partition's first team id
   *  8 the step from one of its team ids to the next
   *  9 how many team ids it has
   * 10 names of the fields that have new values, for the audit
   * 11 how many of its values in pieces are replaced
   * 12 and further: the fields of these with the number of the first piece that they have no more, then fields to set with
   *    their values; then those of AUDIT
   * Answers `changed` when the group is not as it must be; `unreadable` when the record is not whole; `ended` when the claim
   * has been ended; `taken` when another group has the token; `full`; `created`; or `done` and the digest of the foreign
   * token that the group had before, or nothing.
   */
  ugImport: `${CHANGE}${AUDIT}${UNPACK}${INDEXED}${GRACE}${DROP}${CHANGED}
local key, prefix, id, digest, nonce = KEYS[1], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local tokens, ids, counter = prefix .. '${KEY.tokens}', prefix .. '${KEY.ids}', prefix .. '${KEY.teamCount}'
local before = last_change(key)
if (before or '') ~= ARGV[2] then return {'changed', stamp} end
if before and not tonumber(before) or not before and redis.call('EXISTS', key) == 1 then return {'unreadable', stamp} end
if nonce ~= '' and redis.call('EXISTS', prefix .. '${KEY.refused}' .. nonce) == 1 then return {'ended', stamp} end
if digest ~= '' and nonce == '' then
  local holder = redis.call('HGET', tokens, indexed(digest))
  if holder and holder ~= id and redis.call('HGET', prefix .. '${KEY.group}' .. holder, '${FIELD.digest}') == digest then
    return {'taken', stamp}
  end
  holder = redis.call('GET', prefix .. '${KEY.grace}' .. digest)
  if holder and holder ~= id and grace_left(prefix .. '${KEY.group}' .. holder, digest) > 0 then
    return {'taken', stamp}
  end
end
redis.call('HLEN', tokens)
redis.call('ZSCORE', ids, id)
local last = 11 + 2 * tonumber(ARGV[11])
if not before then
  local count = tonumber(redis.call('GET', counter) or '0')
  if count >= tonumber(ARGV[9]) then return {'full', stamp} end
  redis.call('ZADD', ids, '0', id)
  if nonce == '' then redis.call('HSET', tokens, indexed(digest), id) end
  redis.call('SET', counter, string.format('%.0f', count + 1))
  redis.call('HSET', key, '${FIELD.createTime}', stamp, '${FIELD.digest}', digest,
    '${FIELD.teamId}', string.format('%.0f', ARGV[7] + (ARGV[8] + 0.0) * count), spread(ARGV, last + 1, own))
  audit(id, ARGV[10])
  return {'created', stamp}
end
local changed = after(tonumber(before))
local ended = ''
if digest ~= '' then
  local old = redis.call('HGET', key, '${FIELD.digest}')
  local graced = redis.call('HGET', key, '${FIELD.graceDigest}')
  if graced then redis.call('EXISTS', prefix .. '${KEY.grace}' .. graced) end
  if old and redis.call('HEXISTS', key, '${FOREIGN}') == 1 then ended = old end
  redis.call('HSET', key, '${FIELD.digest}', digest, '${FIELD.tokenCreateTime}', changed)
  if nonce == '' then redis.call('HSET', tokens, indexed(digest), id)
  else redis.call('HDEL', key, '${FIELD.token}') end
  if old then redis.call('HDEL', tokens, indexed(old)) end
  if graced then redis.call('DEL', prefix .. '${KEY.grace}' .. graced) end
  redis.call('HDEL', key, '${FIELD.graceDigest}', '${FIELD.graceUntil}')
end
redis.call('HSET', key, '${FIELD.updateTime}', changed, spread(ARGV, last + 1, own))
for i = 12, last, 2 do drop(key, ARGV[i], tonumber(ARGV[i + 1])) end
audit(id, ARGV[10])
return {'done', stamp, ended}`,

  /**
   * Deletes a group and all that leads to it in its partition. What is kept for request ids names the team id, which no
   * other group gets, and ends by itself.
   * KEYS: the group. ARGV: 2 the update time it must have, or nothing; 3 prefix of the partition's keys; 4 id of the group;
   * then those of AUDIT.
   * Answers `missing`; `stale`; or `done` and the digest of the foreign token that it had, or nothing.
   */
  ugDelete: `${CHANGE}${AUDIT}${INDEXED}${CHANGED}
local key, prefix, id = KEYS[1], ARGV[3], ARGV[4]
if redis.call('EXISTS', key) == 0 then return {'missing', stamp} end
if ARGV[2] ~= '' and ARGV[2] ~= last_change(key) then return {'stale', stamp} end
local digest = redis.call('HGET', key, '${FIELD.digest}')
local graced = redis.call('HGET', key, '${FIELD.graceDigest}')
local ended = digest and redis.call('HEXISTS', key, '${FOREIGN}') == 1 and digest or ''
local is_indexed = digest and redis.call('HGET', prefix .. '${KEY.tokens}', indexed(digest)) == id
if graced then redis.call('EXISTS', prefix .. '${KEY.grace}' .. graced) end
redis.call('ZSCORE', prefix .. '${KEY.ids}', id)
redis.call('DEL', key)
if is_indexed then redis.call('HDEL', prefix .. '${KEY.tokens}', indexed(digest)) end
if graced then redis.call('DEL', prefix .. '${KEY.grace}' .. graced) end
redis.call('ZREM', prefix .. '${KEY.ids}', id)
audit(id, '')
return {'done', stamp, ended}`,

  /**
   * Lists the ids of the groups of a partition in their order.
   * KEYS: the ids. ARGV: 1 where to begin as ZRANGEBYLEX has it, 2 what the ids begin with, 3 how many at most.
   * Answers `found`, Redis' clock and the ids.
   */
  ugListGroups: `${CLOCK}${UNPACK}
local to = ARGV[2] == '' and '+' or '(' .. ARGV[2] .. '\\255'
return {'found', stamp, spread(redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], to, 'LIMIT', '0', ARGV[3]))}`,

  /**
   * Reads a group.
   * KEYS: the group.
   * Answers nothing when it is missing; or `found`, Redis' clock and the record.
   */
  ugLookUp: `${CLOCK}${UNPACK}
local record = redis.call('HGETALL', KEYS[1])
if #record == 0 then return {} end
return {'found', stamp, spread(record)}`,
} as const;
