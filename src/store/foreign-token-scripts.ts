import { FIELD } from "./fields.ts";
import { KEY } from "./keys.ts";
import { CHANGE, CLOCK, GRACE, UNPACK } from "./script-parts.ts";

/*
 * A token of another system does not say which partition its group is in. An entry in the partition that its digest
 * leads to says which group it may be of. Which claims there are, and why one cannot be taken while it is used:
 * `foreign-tokens.ts`.
 */

/** The scripts for tokens of other systems, as `SCRIPTS` has them. */
export const FOREIGN_TOKEN_SCRIPTS = {
  /**
   * Claims a token for a group.
   * KEYS: the entry. ARGV: 2 the entry to make, 3 the entry that may be replaced, or nothing.
   * Answers `held` and the entry that is there, or `made` and the one that it made.
   */
  ugClaimToken: `${CHANGE}
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[3] then return {'held', stamp, held} end
redis.call('SET', KEYS[1], ARGV[2])
return {'made', stamp, ARGV[2]}`,

  /**
   * Ends a claim, unless its group has the token: what is still about to give it the token under that claim is refused.
   * KEYS: the group. ARGV:
   *  2 prefix of the partition's keys
   *  3 digest of the token
   *  4 nonce of the claim
   *  5 how long it stays refused, in milliseconds
   *  6 `1` when a token on its grace is none that the group has
   * Answers `current` or `graced`; or `made` and for how many milliseconds the token is on its grace.
   */
  ugEndClaim: `${CHANGE}${GRACE}
if redis.call('HGET', KEYS[1], '${FIELD.digest}') == ARGV[3] then return {'current', stamp} end
local left = grace_left(KEYS[1], ARGV[3])
if left > 0 and ARGV[6] ~= '1' then return {'graced', stamp} end
local refused = ARGV[2] .. '${KEY.refused}' .. ARGV[4]
redis.call('EXISTS', refused)
redis.call('SET', refused, '1', 'PX', ARGV[5])
return {'made', stamp, string.format('%.0f', left > 0 and left or 0)}`,

  /**
   * Removes the entry of a token whose claim has ended, or leaves it as a hint for a while.
   * KEYS: the entry. ARGV: 2 the entry that must be there, 3 the hint, 4 how long it lasts in milliseconds, 0: none is left.
   * Answers `kept` when another entry is there; or `made`.
   */
  ugForgetToken: `${CHANGE}
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return {'kept', stamp} end
if ARGV[4] == '0' then redis.call('DEL', KEYS[1])
else redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4]) end
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
