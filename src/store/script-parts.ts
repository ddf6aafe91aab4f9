import { EVENT_FIELD, FIELD } from "./fields.ts";
import { KEY } from "./keys.ts";

/* What the scripts have in common. Their rules: `scripts.ts`. */

/**
 * Begins a script that Redis carries out even when its memory is full: one that ends what may have leaked, and takes
 * little. It goes before all else; the embedded store takes it off.
 */
export const ALLOW_OOM = "#!lua flags=allow-oom\n";

/** How a script asks for the time; the embedded store puts its own in its place. */
export const TIME = "redis.call('TIME')";

/** `now` and, as text, `stamp`: Redis' clock. Written with floats, for the embedded store's integers have 32 bits. */
export const CLOCK = `local time = ${TIME}
local now = (time[1] + 0.0) * 1000.0 + math.floor(time[2] / 1000)
local stamp = string.format('%.0f', now)
`;

/** Begins every change: answers `late` and changes nothing when the deadline has passed. */
export const CHANGE = `${CLOCK}if now > tonumber(ARGV[1]) then return {'late', stamp} end
`;

/** Lua 5.1 and 5.3 have different names for it. */
export const UNPACK = "local spread = table.unpack or unpack\n";

const { actorId, actorName, role, method, subject, changedFields, requestId, peer } = EVENT_FIELD;

/** The fields and values of an event, in Lua. */
export const EVENT = `'${actorId}', ARGV[own + 4], '${actorName}', ARGV[own + 5], '${role}', ARGV[own + 6],
    '${method}', ARGV[own + 7], '${subject}', subject, '${changedFields}', changed_fields,
    '${requestId}', ARGV[own + 8], '${peer}', ARGV[own + 9]`;

/** How many events the stream `trail` has; the embedded store puts its own in its place. */
export const LENGTH = "redis.call('XLEN', trail)";

/** After how many events those that are too old or too many are looked for: Redis drops them by blocks anyway. */
const TRIM_INTERVAL = 64;

/**
 * Appends an event to the stream `trail`, and leaves in `dropped` how many were too many; the embedded store puts its
 * own in its place. The id of an event tells the microsecond, so that it has its place among the events of other
 * streams; when the clock was set back, Redis makes the id.
 */
export const APPEND = `local function add(call, id) return call('XADD', trail, id, ${EVENT}) end
  if type(add(redis.pcall, stamp .. '-' .. time[2] % 1000)) == 'table' then add(redis.call, '*') end
  if length % ${TRIM_INTERVAL} == 0 then
    redis.call('XTRIM', trail, 'MINID', '~', string.format('%.0f', now - ARGV[own + 2]))
    if length > most then dropped = redis.call('XTRIM', trail, 'MAXLEN', '~', ARGV[own + 3]) end
  end`;

/**
 * For scripts that change what is audited. Begins after `CHANGE`, and looks at the stream before anything is written.
 * `own` is how many arguments the script has of its own; behind them it takes those of `Audit`:
 *  own + 1 key of the stream
 *  own + 2 how long events are kept, in milliseconds
 *  own + 3 how many are kept, or nothing: all of them
 *  own + 4 to own + 9: who makes the change (`ChangeBy`)
 * A script calls `audit` once for each change that it makes, whatever it has written before, with the id of what it
 * changed and the names of the fields that have new values. It answers how many events it dropped because there were too
 * many, though they were young enough.
 */
export const AUDIT = `local own = #ARGV - 9
local trail = ARGV[own + 1]
local length = ${LENGTH}
local most = tonumber(ARGV[own + 3]) or math.huge
local function audit(subject, changed_fields)
  local dropped = 0
  ${APPEND}
  redis.call('PEXPIRE', trail, ARGV[own + 2])
  return dropped
end
`;

/** How many characters of a token's digest the index holds: enough to tell a partition's tokens apart. */
const INDEXED_CHARACTERS = 14;

/** The field of a token in the index, from its digest. */
export const INDEXED = `local function indexed(digest) return string.sub(digest, 1, ${INDEXED_CHARACTERS}) end
`;

/** For how long a token is still on its grace in a group, in milliseconds; 0 or less: it is not. Fails on damaged times. */
export const GRACE = `local function grace_left(key, digest)
  if redis.call('HGET', key, '${FIELD.graceDigest}') ~= digest then return 0 end
  return tonumber(redis.call('HGET', key, '${FIELD.graceUntil}') or '0') - now
end
`;

/** The group that the entry of a foreign token with a digest is of, or nothing. */
export const ENTRY = `local function holder_of(entry)
  return string.sub(entry, (string.find(entry, ':', 1, true) or 0) + 1)
end
local function held_by(prefix, digest)
  local entry = redis.call('GET', prefix .. '${KEY.foreign}' .. digest)
  return entry and holder_of(entry)
end
`;

/**
 * Gives a group another token, and the one that it had a grace in milliseconds, or none. The fields that hold the token
 * itself and its times are set by the caller. Answers what `endedEntry` holds. Goes behind `INDEXED`.
 */
export const REPLACE = `local function replace(prefix, key, id, digest, is_indexed, grace)
  local tokens, graces = prefix .. '${KEY.tokens}', prefix .. '${KEY.grace}'
  local old, graced = redis.call('HGET', key, '${FIELD.digest}'), redis.call('HGET', key, '${FIELD.graceDigest}')
  local entry = redis.call('HGET', key, '${FIELD.entry}')
  redis.call('HLEN', tokens)
  if graced then redis.call('EXISTS', graces .. graced) end
  if grace ~= '0' then redis.call('EXISTS', graces .. old) end
  redis.call('HSET', key, '${FIELD.digest}', digest)
  if is_indexed then redis.call('HSET', tokens, indexed(digest), id) end
  redis.call('HDEL', tokens, indexed(old))
  if graced then redis.call('DEL', graces .. graced) end
  if grace ~= '0' then
    redis.call('SET', graces .. old, id, 'PX', grace)
    redis.call('HSET', key, '${FIELD.graceDigest}', old, '${FIELD.graceUntil}', string.format('%.0f', now + grace))
  else
    redis.call('HDEL', key, '${FIELD.graceDigest}', '${FIELD.graceUntil}')
  end
  redis.call('HDEL', key, '${FIELD.token}', '${FIELD.entry}')
  return entry and entry .. ':' .. old or ''
end
`;

/** Removes the pieces of a value from one of them on; the numbers of pieces have no gaps. */
export const DROP = `local function drop(key, field, from)
  while redis.call('HDEL', key, field .. string.format('%.0f', from)) == 1 do from = from + 1 end
end
`;

/**
 * The time of a change, which is later than that of the one before, so that no
 * group has one etag twice; `before` is nil when the record is not whole.
 */
export const CHANGED = `local function last_change(key)
  return redis.call('HGET', key, '${FIELD.updateTime}') or redis.call('HGET', key, '${FIELD.createTime}')
end
local function after(before)
  if now > before then return stamp end
  return string.format('%.0f', before + 1.0)
end
`;
