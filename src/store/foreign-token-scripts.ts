import { FIELD } from "./fields.ts";
import { KEY } from "./keys.ts";
import { CHANGE, CLOCK, ENTRY, GRACE, INDEXED, UNPACK } from "./script-parts.ts";

/** The scripts for tokens of other systems, as `SCRIPTS` has them. What entries are for: `foreign-tokens.ts`. */
export const FOREIGN_TOKEN_SCRIPTS = {
  /**
   * Makes the entry of a token for a group, later than any that was there.
   * KEYS: the entry. ARGV:
   *  2 prefix of the keys of its partition
   *  3 digest of the token
   *  4 id of the group
   *  5 the entry of another group that may be replaced, or nothing
   *  6 `1` to make it anew where it is of the group already
   * Answers `taken` when a group of this partition has the token; `held` and the entry of another group; or `made` and the
   * entry that is there now.
   */
  ugClaimToken: `${CHANGE}${INDEXED}${GRACE}${ENTRY}
local prefix, digest, id = ARGV[2], ARGV[3], ARGV[4]
local function has(holder)
  if not holder or holder == id then return false end
  local group = prefix .. '${KEY.group}' .. holder
  return redis.call('HGET', group, '${FIELD.digest}') == digest or grace_left(group, digest) > 0
end
if has(redis.call('HGET', prefix .. '${KEY.tokens}', indexed(digest))) then return {'taken', stamp} end
if has(redis.call('GET', prefix .. '${KEY.grace}' .. digest)) then return {'taken', stamp} end
local held = redis.call('GET', KEYS[1])
local is_own = held and holder_of(held) == id
if held and not is_own and held ~= ARGV[5] then return {'held', stamp, held} end
if is_own and ARGV[6] ~= '1' then return {'made', stamp, held} end
local last = tonumber(held and string.match(held, '^%d+') or '0')
held = string.format('%.0f', now > last and now or last + 1.0) .. ':' .. id
redis.call('SET', KEYS[1], held)
return {'made', stamp, held}`,

  /**
   * Removes the entry of a token that its group has no more, unless it was made anew.
   * KEYS: the entry. ARGV: 2 the entry that must be there, 3 for how many milliseconds it may still be needed.
   * Answers `kept` or `made`.
   */
  ugForgetToken: `${CHANGE}
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return {'kept', stamp} end
if ARGV[3] == '0' then redis.call('DEL', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return {'made', stamp}`,

  /**
   * Reads a group if it has a token.
   * KEYS: the group. ARGV: 1 its id, 2 digest of the token.
   * Answers nothing; or `current` or `graced`, Redis' clock, the id as a field and the record.
   */
  ugResolveAt: `${CLOCK}${UNPACK}${GRACE}
local state
if redis.call('HGET', KEYS[1], '${FIELD.digest}') == ARGV[2] then state = 'current'
elseif grace_left(KEYS[1], ARGV[2]) > 0 then state = 'graced'
else return {} end
return {state, stamp, '${FIELD.providedId}', ARGV[1], spread(redis.call('HGETALL', KEYS[1]))}`,
} as const;
