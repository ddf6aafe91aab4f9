/*
 * Every script takes one key, by which Redis Cluster finds the shard; the other
 * keys it touches share its hash tag. They use plain hash and string commands,
 * take and return flat arrays of strings and report outcomes as the first
 * element, because the embedded store's Lua knows no more.
 */

/** Lua 5.1 and 5.3 name it differently. */
const UNPACK = "local spread = table.unpack or unpack\n";

/** A script as ioredis defines it. */
export interface Script {
  readonly numberOfKeys: 1;
  readonly lua: string;
}

/**
 * Creates a group unless it exists.
 * KEYS: the group. ARGV: key of the token index, digest of the token, id of the
 * group, then the fields and values of the record.
 * Answers nothing when it created the group, else the record that is there.
 * The index comes first: should it be of another type, nothing is written.
 */
export const CREATE: Script = {
  numberOfKeys: 1,
  lua: `${UNPACK}
local record = redis.call('HGETALL', KEYS[1])
if #record > 0 then return record end
redis.call('HSET', ARGV[1], ARGV[2], ARGV[3])
redis.call('HSET', KEYS[1], spread(ARGV, 4))
return {}`,
};

/**
 * Changes a group.
 * KEYS: the group. ARGV: the etag it must have or nothing, how many fields to
 * set, these fields with their values, then the fields to remove.
 * Answers `missing`, `unreadable` when the record is not whole, `stale`, or
 * `done` and the record.
 */
export const UPDATE: Script = {
  numberOfKeys: 1,
  lua: `${UNPACK}
local etag = redis.call('HGET', KEYS[1], 'etag')
if not etag then return {redis.call('EXISTS', KEYS[1]) == 1 and 'unreadable' or 'missing'} end
if ARGV[1] ~= '' and ARGV[1] ~= etag then return {'stale'} end
local set = 2 * tonumber(ARGV[2])
if set > 0 then redis.call('HSET', KEYS[1], spread(ARGV, 3, 2 + set)) end
if #ARGV > 2 + set then redis.call('HDEL', KEYS[1], spread(ARGV, 3 + set)) end
return {'done', spread(redis.call('HGETALL', KEYS[1]))}`,
};

/**
 * Gives a group a new token.
 * KEYS: the token index. ARGV:
 *  1 prefix of the partition's keys
 *  2 digest of the token to rotate, or nothing to rotate by id
 *  3 id of the group, when it is rotated by id
 *  4 digest of the new token
 *  5 the new token, encrypted
 *  6 new etag
 *  7 now, in milliseconds since 1970
 *  8 grace of the old token in milliseconds, 0 for none
 *  9 when the grace ends, in milliseconds since 1970
 * 10 digest of the request id, or nothing
 * 11 digest of the request's parameters
 * 12 how long to keep the answer, in milliseconds
 * Answers `missing`; `unreadable` when a record is not whole; `unsettled` and the record when the last rotation still
 * waits for its settlement; `replayed` and the answer that is kept; or `done`
 * and the record.
 */
export const ROTATE: Script = {
  numberOfKeys: 1,
  lua: `${UNPACK}
local prefix = ARGV[1]
local by_token = ARGV[2] ~= ''
local answer_key = prefix .. 'request:' .. ARGV[10]
if ARGV[10] ~= '' then
  local answer = redis.call('HGETALL', answer_key)
  if #answer > 0 then return {'replayed', spread(answer)} end
end
local id = ARGV[3]
if by_token then
  id = redis.call('HGET', KEYS[1], ARGV[2])
  if not id then return {'missing'} end
end
local key = prefix .. 'group:' .. id
local old = redis.call('HGET', key, 'token_digest')
if not old then return {(by_token or redis.call('EXISTS', key) == 1) and 'unreadable' or 'missing'} end
if by_token then
  if old ~= ARGV[2] then return {'missing'} end
  if redis.call('HEXISTS', key, 'token_link') == 1 then
    return {'unsettled', spread(redis.call('HGETALL', key))}
  end
end
redis.call('HDEL', KEYS[1], old)
redis.call('HSET', KEYS[1], ARGV[4], id)
local graced = redis.call('HGET', key, 'grace_digest')
if graced then redis.call('DEL', prefix .. 'grace:' .. graced) end
if ARGV[8] ~= '0' then
  redis.call('SET', prefix .. 'grace:' .. old, id, 'PX', ARGV[8])
  redis.call('HSET', key, 'grace_digest', old, 'grace_until', ARGV[9])
else
  redis.call('HDEL', key, 'grace_digest', 'grace_until')
end
if by_token then
  redis.call('HSET', key, 'token_link', ARGV[5])
else
  redis.call('HDEL', key, 'token_link')
  redis.call('HSET', key, 'token', ARGV[5])
end
redis.call('HSET', key, 'token_digest', ARGV[4], 'etag', ARGV[6], 'update_time', ARGV[7], 'token_create_time', ARGV[7])
local record = redis.call('HGETALL', key)
if ARGV[10] ~= '' then
  redis.call('HSET', answer_key, 'fingerprint', ARGV[11], spread(record))
  redis.call('PEXPIRE', answer_key, ARGV[12])
end
return {'done', spread(record)}`,
};

/**
 * Puts the token of a rotation by token where it is bound to its group's id.
 * KEYS: the group. ARGV: digest of that token, the token encrypted for its id.
 * Answers nothing; changes nothing when the token is no longer that one.
 */
export const SETTLE: Script = {
  numberOfKeys: 1,
  lua: `
if redis.call('HGET', KEYS[1], 'token_digest') == ARGV[1] and redis.call('HEXISTS', KEYS[1], 'token_link') == 1 then
  redis.call('HSET', KEYS[1], 'token', ARGV[2])
  redis.call('HDEL', KEYS[1], 'token_link')
end
return {}`,
};

/**
 * Finds the group that a token stands for.
 * KEYS: the token index. ARGV: prefix of the partition's keys, digest of the token.
 * Answers nothing, or `current` or `graced` and the record.
 */
export const RESOLVE: Script = {
  numberOfKeys: 1,
  lua: `${UNPACK}
local state = 'current'
local id = redis.call('HGET', KEYS[1], ARGV[2])
if not id then
  state = 'graced'
  id = redis.call('GET', ARGV[1] .. 'grace:' .. ARGV[2])
end
if not id then return {} end
return {state, spread(redis.call('HGETALL', ARGV[1] .. 'group:' .. id))}`,
};
