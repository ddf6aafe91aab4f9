import { API_TOKEN_FIELD, ENVIRONMENT_FIELD } from "./fields.ts";
import { AUDIT, CHANGE, CLOCK, UNPACK } from "./script-parts.ts";

/** The scripts for API tokens, as `SCRIPTS` has them. */
export const API_TOKEN_SCRIPTS = {
  /**
   * Creates an API token in an environment that exists.
   * KEYS: the environment. ARGV: 2 key of the token, 3 key of the ids, 4 id, 5 and further: fields and values;
   * then those of AUDIT.
   * Answers `missing` when there is no such environment; `found` when there is a token of this id; or `created`.
   */
  ugCreateApiToken: `${CHANGE}${AUDIT}${UNPACK}
if not redis.call('HGET', KEYS[1], '${ENVIRONMENT_FIELD.partitions}') then return {'missing', stamp} end
if redis.call('HGET', ARGV[2], '${API_TOKEN_FIELD.digest}') then return {'found', stamp} end
redis.call('ZSCORE', ARGV[3], ARGV[4])
redis.call('HSET', ARGV[2], '${API_TOKEN_FIELD.createTime}', stamp, spread(ARGV, 5, own))
redis.call('ZADD', ARGV[3], '0', ARGV[4])
audit(ARGV[4], '')
return {'created', stamp}`,

  /**
   * Reads an API token and the environment that it is of.
   * KEYS: the token. ARGV: 1 key of the environment.
   * Answers nothing when one of them is missing; or `found`, Redis' clock, two fields of the environment and the token.
   */
  ugReadApiToken: `${CLOCK}${UNPACK}
local record = redis.call('HGETALL', KEYS[1])
local partitions = redis.call('HGET', ARGV[1], '${ENVIRONMENT_FIELD.partitions}')
if #record == 0 or not partitions then return {} end
return {'found', stamp, partitions, redis.call('HGET', ARGV[1], '${ENVIRONMENT_FIELD.number}') or '', spread(record)}`,

  /**
   * Ends an API token, and tells every worker so. A user who may not publish can still revoke.
   * KEYS: the token. ARGV: 2 key of the ids, 3 id, 4 channel; then those of AUDIT.
   * Answers `missing`; or `done` and the digest.
   */
  ugRevokeApiToken: `${CHANGE}${AUDIT}
local digest = redis.call('HGET', KEYS[1], '${API_TOKEN_FIELD.digest}') or ''
redis.call('ZSCORE', ARGV[2], ARGV[3])
local gone = redis.call('DEL', KEYS[1])
redis.call('ZREM', ARGV[2], ARGV[3])
if gone == 0 then return {'missing', stamp} end
audit(ARGV[3], '')
redis.pcall('PUBLISH', ARGV[4], digest)
return {'done', stamp, digest}`,

  /**
   * Notes that an API token is in use.
   * KEYS: the token. ARGV: 2 how old a note must be to be replaced, in milliseconds.
   * Answers `missing` or `noted`. No replica is waited for.
   */
  ugNoteApiTokenUse: `${CHANGE}
if not redis.call('HGET', KEYS[1], '${API_TOKEN_FIELD.digest}') then return {'missing', stamp} end
local last = tonumber(redis.call('HGET', KEYS[1], '${API_TOKEN_FIELD.lastUseTime}') or '0') or 0
if now - last >= tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], '${API_TOKEN_FIELD.lastUseTime}', stamp) end
return {'noted', stamp}`,
} as const;
