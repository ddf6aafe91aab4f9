import { ENVIRONMENT_FIELD, FIELD } from "./fields.ts";
import { KEY } from "./keys.ts";
import { ALLOW_OOM, AUDIT, CHANGE, UNPACK } from "./script-parts.ts";

const { partitions, number, createTime, deleteTime, formerPartitions, isDeleted, generation } = ENVIRONMENT_FIELD;

/**
 * The scripts that make and delete environments, as `SCRIPTS` has them. A deletion goes on while Redis' memory is full,
 * which it frees.
 */
export const ENVIRONMENT_SCRIPTS = {
  /**
   * Makes an environment that has none of its fields yet, completes one of an earlier version, or makes a deleted one anew.
   * KEYS: the environment. ARGV: 2 generation that it must have, 3 `1` when a deleted one may be made anew, 4 and further:
   * fields and values; then those of AUDIT.
   * Answers `deleted` when it is, or is another one by now; `made` when any field was missing, else `found`, and the hash.
   */
  ugMakeEnvironment: `${CHANGE}${AUDIT}${UNPACK}
local is_deleted = redis.call('HEXISTS', KEYS[1], '${deleteTime}') == 1
local may_be = ARGV[3] == '1' and redis.call('HEXISTS', KEYS[1], '${isDeleted}') == 1
if is_deleted and not may_be or (redis.call('HGET', KEYS[1], '${generation}') or '') ~= ARGV[2] then
  return {'deleted', stamp}
end
local missing = {}
for i = 4, own, 2 do
  if is_deleted or redis.call('HEXISTS', KEYS[1], ARGV[i]) == 0 then missing[#missing + 1] = i end
end
for _, i in ipairs(missing) do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
if is_deleted then redis.call('HDEL', KEYS[1], '${deleteTime}', '${formerPartitions}', '${isDeleted}') end
if #missing > 0 then audit('', '') end
return {#missing > 0 and 'made' or 'found', stamp, spread(redis.call('HGETALL', KEYS[1]))}`,

  /**
   * Begins to delete an environment: from now on nobody finds it but who goes on with that.
   * KEYS: the environment. ARGV: 2 its number; then those of AUDIT.
   * Answers `missing` when it is deleted, or another one by now; `done`, or `found` when it was begun before.
   */
  ugBeginDeletion: `${ALLOW_OOM}${CHANGE}${AUDIT}
if redis.call('HGET', KEYS[1], '${number}') ~= ARGV[2] then return {'missing', stamp} end
if redis.call('HEXISTS', KEYS[1], '${deleteTime}') == 1 then return {'found', stamp} end
redis.call('HSET', KEYS[1], '${deleteTime}', stamp, '${formerPartitions}', redis.call('HGET', KEYS[1], '${partitions}'))
redis.call('HDEL', KEYS[1], '${partitions}')
audit('', '${deleteTime}')
return {'done', stamp}`,

  /**
   * Ends the deletion of an environment. What is left of it says which generation the next one of its name is, and where
   * its events are.
   * KEYS: the environment. ARGV: 2 its number; then those of AUDIT.
   * Answers `missing` when it is deleted, or another one by now; or `done`.
   */
  ugEndDeletion: `${ALLOW_OOM}${CHANGE}${AUDIT}
local is_begun = redis.call('HEXISTS', KEYS[1], '${deleteTime}') == 1
if not is_begun or redis.call('HGET', KEYS[1], '${number}') ~= ARGV[2] then return {'missing', stamp} end
local next = tonumber(redis.call('HGET', KEYS[1], '${generation}') or '0') + 1
redis.call('HSET', KEYS[1], '${isDeleted}', '1', '${generation}', string.format('%.0f', next))
redis.call('HDEL', KEYS[1], '${number}', '${createTime}')
audit('', '')
return {'done', stamp}`,

  /**
   * Takes a member off a sorted set.
   * KEYS: the sorted set. ARGV: 2 the member.
   * Answers `done`.
   */
  ugUnlist: `${CHANGE}
redis.call('ZREM', KEYS[1], ARGV[2])
return {'done', stamp}`,

  /**
   * Holds a partition closed that has no group, or opens it again.
   * KEYS: the ids. ARGV: 2 key that closes it, 3 for how long, in milliseconds; 0: it is opened.
   * Answers `filled` when it has groups, or `done`.
   */
  ugHold: `${ALLOW_OOM}${CHANGE}
local state = redis.call('GET', ARGV[2])
if ARGV[3] == '0' then
  if state == 'held' then redis.call('DEL', ARGV[2]) end
  return {'done', stamp}
end
if redis.call('ZCARD', KEYS[1]) > 0 then return {'filled', stamp} end
if not state then redis.call('SET', ARGV[2], 'held', 'PX', ARGV[3]) end
return {'done', stamp}`,

  /**
   * Closes a partition of an environment that is being deleted, and deletes groups of it. Their tokens end at once. It may
   * come late, when the environment has been deleted and made anew: what that one has is left alone.
   * KEYS: the ids. ARGV: 2 key that closes it, 3 for how long, in milliseconds, 4 prefix of the partition's keys, 5 the
   * partition's first team id, 6 how many team ids an environment has, 7 how many groups are deleted at most.
   * Answers `done`, how many groups are left, and ids of deleted ones with what `endedEntry` holds of each.
   */
  ugClear: `${ALLOW_OOM}${CHANGE}${UNPACK}
local prefix = ARGV[4]
local tokens, counter = prefix .. '${KEY.tokens}', prefix .. '${KEY.teamCount}'
local is_new = redis.call('GET', ARGV[2]) ~= 'closed'
redis.call('EXISTS', tokens)
redis.call('EXISTS', counter)
local ids = redis.call('ZRANGEBYLEX', KEYS[1], '-', '+', 'LIMIT', '0', ARGV[7])
local function read(id, name)
  local value = redis.pcall('HGET', prefix .. '${KEY.group}' .. id, name)
  return type(value) == 'string' and value
end
for _, id in ipairs(ids) do
  local offset = (tonumber(read(id, '${FIELD.teamId}') or '') or ARGV[5]) + 0.0 - ARGV[5]
  if offset < 0 or offset >= tonumber(ARGV[6]) then return {'done', stamp, '0'} end
end
redis.call('SET', ARGV[2], 'closed', 'PX', ARGV[3])
if is_new and ARGV[7] ~= '0' then redis.call('DEL', tokens) end
local ended = {}
for _, id in ipairs(ids) do
  local digest, graced = read(id, '${FIELD.digest}'), read(id, '${FIELD.graceDigest}')
  local entry = digest and read(id, '${FIELD.entry}')
  if entry then
    ended[#ended + 1] = id
    ended[#ended + 1] = entry .. ':' .. digest
  end
  if graced then redis.call('DEL', prefix .. '${KEY.grace}' .. graced) end
  redis.call('DEL', prefix .. '${KEY.group}' .. id)
  redis.call('ZREM', KEYS[1], id)
end
local left = redis.call('ZCARD', KEYS[1])
if left == 0 and (is_new or #ids > 0) then redis.call('DEL', counter, tokens) end
return {'done', stamp, string.format('%.0f', left), spread(ended)}`,
} as const;
