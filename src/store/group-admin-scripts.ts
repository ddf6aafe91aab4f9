import { FIELD } from "./fields.ts";
import { KEY } from "./keys.ts";
import { AUDIT, CHANGE, CHANGED, CLOCK, DROP, INDEXED, REPLACE, UNPACK } from "./script-parts.ts";

/** The scripts by which operators list, look up and change groups, as `SCRIPTS` has them. */
export const GROUP_ADMIN_SCRIPTS = {
  /**
   * Makes a group as it is given.
   * KEYS: the group. ARGV:
   *  2 the update time it must have; nothing: it must not be there
   *  3 prefix of the partition's keys
   *  4 id of the group
   *  5 digest of the token to give it; nothing: it keeps its own
   *  6 `1` when the partition's index of tokens is to lead to that token; nothing: its entry does
   *  7 grace of the token that it had in milliseconds, 0 for none
   *  8 the partition's first team id
   *  9 the step from one of its team ids to the next
   * 10 how many team ids it has
   * 11 names of the fields that have new values, for the audit
   * 12 how many of its values in pieces are replaced
   * 13 and further: the fields of these with the number of the first piece that they have no more, then fields to set with
   *    their values; then those of AUDIT
   * Answers `changed` when the group is not as it must be; `unreadable` when the record is not whole; `closed` when the environment is
   * deleted; `full`; `created`; or `done` and what `endedEntry` holds.
   */
  ugImport: `${CHANGE}${AUDIT}${UNPACK}${INDEXED}${REPLACE}${DROP}${CHANGED}
local key, prefix, id, digest, is_indexed = KEYS[1], ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1'
local tokens, ids, counter = prefix .. '${KEY.tokens}', prefix .. '${KEY.ids}', prefix .. '${KEY.teamCount}'
local before = last_change(key)
if (before or '') ~= ARGV[2] then return {'changed', stamp} end
if before and not tonumber(before) or not before and redis.call('EXISTS', key) == 1 then return {'unreadable', stamp} end
if before and not redis.call('HGET', key, '${FIELD.digest}') then return {'unreadable', stamp} end
redis.call('HLEN', tokens)
redis.call('ZSCORE', ids, id)
redis.call('EXISTS', prefix .. '${KEY.foreign}' .. digest)
local last = 12 + 2 * tonumber(ARGV[12])
local outcome, ended = 'done', ''
if not before then
  if redis.call('EXISTS', prefix .. '${KEY.closed}' .. ARGV[8]) == 1 then return {'closed', stamp} end
  outcome = 'created'
  local count = tonumber(redis.call('GET', counter) or '0')
  if count >= tonumber(ARGV[10]) then return {'full', stamp} end
  redis.call('ZADD', ids, '0', id)
  if is_indexed then redis.call('HSET', tokens, indexed(digest), id) end
  redis.call('SET', counter, string.format('%.0f', count + 1))
  redis.call('HSET', key, '${FIELD.createTime}', stamp, '${FIELD.digest}', digest,
    '${FIELD.teamId}', string.format('%.0f', ARGV[8] + (ARGV[9] + 0.0) * count), spread(ARGV, last + 1, own))
else
  if digest ~= '' then ended = replace(prefix, key, id, digest, is_indexed, ARGV[7]) end
  redis.call('HSET', key, '${FIELD.updateTime}', after(tonumber(before)), spread(ARGV, last + 1, own))
  for i = 13, last, 2 do drop(key, ARGV[i], tonumber(ARGV[i + 1])) end
end
if is_indexed then redis.call('DEL', prefix .. '${KEY.foreign}' .. digest) end
audit(id, ARGV[11])
return {outcome, stamp, ended}`,

  /**
   * Deletes a group and all that leads to it in its partition. What is kept for request ids names the team id, which no
   * other group gets, and ends by itself.
   * KEYS: the group. ARGV: 2 the update time it must have, or nothing; 3 prefix of the partition's keys; 4 id of the group;
   * then those of AUDIT.
   * Answers `missing`; `stale`; or `done` and what `endedEntry` holds.
   */
  ugDelete: `${CHANGE}${AUDIT}${INDEXED}${CHANGED}
local key, prefix, id = KEYS[1], ARGV[3], ARGV[4]
if redis.call('EXISTS', key) == 0 then return {'missing', stamp} end
if ARGV[2] ~= '' and ARGV[2] ~= last_change(key) then return {'stale', stamp} end
local digest = redis.call('HGET', key, '${FIELD.digest}')
local graced = redis.call('HGET', key, '${FIELD.graceDigest}')
local entry = redis.call('HGET', key, '${FIELD.entry}')
local is_indexed = digest and redis.call('HGET', prefix .. '${KEY.tokens}', indexed(digest)) == id
if graced then redis.call('EXISTS', prefix .. '${KEY.grace}' .. graced) end
redis.call('ZSCORE', prefix .. '${KEY.ids}', id)
redis.call('DEL', key)
if is_indexed then redis.call('HDEL', prefix .. '${KEY.tokens}', indexed(digest)) end
if graced then redis.call('DEL', prefix .. '${KEY.grace}' .. graced) end
redis.call('ZREM', prefix .. '${KEY.ids}', id)
audit(id, '')
return {'done', stamp, digest and entry and entry .. ':' .. digest or ''}`,

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
