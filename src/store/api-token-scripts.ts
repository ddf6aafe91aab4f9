import { API_TOKEN_FIELD, ENVIRONMENT_FIELD } from "./fields.ts";
import { ALLOW_OOM, AUDIT, CHANGE, CLOCK, UNPACK } from "./script-parts.ts";

const { id, environment, expireTime, tokenCreateTime, isReplaced, lastUseTime } = API_TOKEN_FIELD;

/** The members of the list that are of an id, each `ID DIGEST`: no digest has a character behind `z`. */
const LISTED = `local function listed(key, id) return redis.call('ZRANGEBYLEX', key, '[' .. id .. ' ', '(' .. id .. '~') end
`;

/**
 * The scripts for API tokens, as `SCRIPTS` has them. A token's record and the list of its environment are in different
 * slots; `api-tokens.ts` says in which order they are written.
 */
export const API_TOKEN_SCRIPTS = {
  /**
   * Writes the record of a new API token, which ends by itself unless it is confirmed.
   * KEYS: the record. ARGV: 2 for how long, in milliseconds, 3 and further: fields and values.
   * Answers `made`.
   */
  ugWriteApiToken: `${CHANGE}${UNPACK}
redis.call('HSET', KEYS[1], '${tokenCreateTime}', stamp, spread(ARGV, 3))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'made', stamp}`,

  /**
   * Lists an API token in its environment.
   * KEYS: the environment. ARGV: 2 key of the list, 3 id, 4 digest, 5 what is listed under the id so far, separated by
   * commas, 6 how many ids may be listed, 7 what the event is of, 8 names of the fields that have new values; then those
   * of AUDIT.
   * Answers `missing` when there is no such environment; `stale` when something else is listed under the id; `full`; or
   * `made`.
   */
  ugListApiToken: `${CHANGE}${AUDIT}${LISTED}
if not redis.call('HGET', KEYS[1], '${ENVIRONMENT_FIELD.partitions}') then return {'missing', stamp} end
if table.concat(listed(ARGV[2], ARGV[3]), ',') ~= ARGV[5] then return {'stale', stamp} end
if ARGV[5] == '' and redis.call('ZCARD', ARGV[2]) >= tonumber(ARGV[6]) then
  local ids, last = 0, ''
  for _, member in ipairs(redis.call('ZRANGEBYLEX', ARGV[2], '-', '+')) do
    local id = string.match(member, '^[^ ]*')
    if id ~= last then ids = ids + 1 end
    last = id
  end
  if ids >= tonumber(ARGV[6]) then return {'full', stamp} end
end
redis.call('ZADD', ARGV[2], '0', ARGV[3] .. ' ' .. ARGV[4])
audit(ARGV[7], ARGV[8])
return {'made', stamp}`,

  /**
   * Changes the record of an API token, confirms it, and tells every worker to read it again. A user who may not publish
   * can still change it. One that is replaced never lasts longer than before.
   * KEYS: the record. ARGV: 2 when it ends, in milliseconds since 1970, nothing for never, or `same`; 3 channel,
   * 4 digest, 5 and further: fields and values.
   * Answers `missing` or `done`.
   */
  ugChangeApiToken: `${CHANGE}${UNPACK}
if redis.call('EXISTS', KEYS[1]) == 0 then return {'missing', stamp} end
if #ARGV > 4 then redis.call('HSET', KEYS[1], spread(ARGV, 5)) end
local ends = redis.call('HGET', KEYS[1], '${expireTime}')
local is_later = ends and (ARGV[2] == '' or tonumber(ARGV[2]) and tonumber(ARGV[2]) > tonumber(ends))
if ARGV[2] ~= 'same' and not (is_later and redis.call('HEXISTS', KEYS[1], '${isReplaced}') == 1) then
  ends = ARGV[2] ~= '' and ARGV[2]
  if ends then redis.call('HSET', KEYS[1], '${expireTime}', ends) else redis.call('HDEL', KEYS[1], '${expireTime}') end
end
if ends then redis.call('PEXPIREAT', KEYS[1], ends) else redis.call('PERSIST', KEYS[1]) end
redis.pcall('PUBLISH', ARGV[3], ARGV[4])
return {'done', stamp}`,

  /**
   * Ends an API token, and tells every worker so. A user who may not publish can still end it.
   * KEYS: the record. ARGV: 2 channel, 3 digest.
   * Answers `missing` or `done`.
   */
  ugEndApiToken: `${ALLOW_OOM}${CHANGE}
local gone = redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return {gone > 0 and 'done' or 'missing', stamp}`,

  /**
   * Takes API tokens off the list of their environment.
   * KEYS: the list. ARGV: 2 id, 3 what the event is of, or nothing for no event, 4 and further: members; then those of
   * AUDIT.
   * Answers `done`, or `missing` when none of them was listed; and what is still listed under the id.
   */
  ugUnlistApiTokens: `${ALLOW_OOM}${CHANGE}${AUDIT}${UNPACK}${LISTED}
local gone = 0
for i = 4, own do gone = gone + redis.call('ZREM', KEYS[1], ARGV[i]) end
if gone > 0 and ARGV[3] ~= '' then audit(ARGV[3], '') end
return {gone > 0 and 'done' or 'missing', stamp, spread(listed(KEYS[1], ARGV[2]))}`,

  /**
   * Reads an API token.
   * KEYS: the record.
   * Answers nothing when it is missing; or `found`, Redis' clock and the record.
   */
  ugReadApiToken: `${CLOCK}${UNPACK}
local record = redis.call('HGETALL', KEYS[1])
if #record == 0 then return {} end
return {'found', stamp, spread(record)}`,

  /**
   * Notes that an API token is in use.
   * KEYS: the record. ARGV: 2 how old a note must be to be replaced, in milliseconds.
   * Answers `missing`; or `noted`, the id and the environment. No replica is waited for.
   */
  ugNoteApiTokenUse: `${CHANGE}
local id = redis.call('HGET', KEYS[1], '${id}')
if not id then return {'missing', stamp} end
local last = tonumber(redis.call('HGET', KEYS[1], '${lastUseTime}') or '0') or 0
if now - last >= tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], '${lastUseTime}', stamp) end
return {'noted', stamp, id, redis.call('HGET', KEYS[1], '${environment}') or ''}`,
} as const;
