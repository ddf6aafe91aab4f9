import { type Environment, partitionOf } from "../../domain/environment.ts";
import { TokenNotFound, TokenTaken } from "../../domain/errors.ts";
import { MAX_STORE_CALL_MS } from "../../domain/store.ts";
import { userGroupTokenShape } from "../../domain/token.ts";
import { KEY, locateGroup, partitionPrefix } from "../keys.ts";
import type { StoreClient } from "../redis/client.ts";
import { changeScript, readScript } from "../redis/script.ts";
import { ENTRY, FIELD, GRACE, INDEXED } from "./fields.ts";

/*
 * The entries of tokens that do not name the partition of their group: those of another system, and those made while the
 * environment had another number of partitions.
 *
 * The record of a group decides which group has a token; an entry only says where to look. No token may belong to two
 * groups, but entry and group are in different slots. So the entry is made first, for one group at a time, and the group
 * gets the token soon after or never. Another group may take over an entry that is too old to be used any more, if the
 * first group does not have the token. An import that is interrupted between the two steps blocks only its own token, for
 * `OLD_MS`.
 *
 * An entry is removed when its group no longer has the token. But an entry that was made anew, because there was one of the
 * same group already, is never removed: another group has to take it over. For two may need it, two imports, or an import and
 * a grace, and who removed it for one would take it from the other.
 */

/** For how long after its entry was made a group may begin to be given a token, in milliseconds. */
export const CLAIM_MS = 60 * 1000;

/**
 * From which age on an entry gives no group its token any more, in milliseconds: the call that does is sent within `CLAIM_MS`,
 * and the clocks of nodes may differ by three minutes.
 */
const OLD_MS = CLAIM_MS + MAX_STORE_CALL_MS + 3 * 60 * 1000;

/** How much longer an entry is kept than a grace, in milliseconds: two nodes need not agree on the time. */
const SLACK_MS = 60 * 1000;

/**
 * Makes the entry of a token for a group, with a later time than any entry before it. An entry of another group is only
 * replaced if it is `replaced`; one of the same group is kept, unless it is to be made `anew`.
 * Answers `taken` when a group of this partition has the token; `other` and the entry of another group; `done` and the entry
 * that is there now; or `shared` and that entry, when it was made anew: the group may have the token by the entry before, or
 * be about to be given it.
 */
export const CLAIM_TOKEN = changeScript("ugClaimToken", {
  made: ["done", "shared"],
  args: ["prefix", "digest", "id", "replaced", "anew"],
  lua: `${INDEXED}${GRACE}${ENTRY}
local function has(holder)
  if not holder or holder == id then return false end
  local group = prefix .. '${KEY.group}' .. holder
  return redis.call('HGET', group, '${FIELD.digest}') == digest or grace_left(group, digest) > 0
end
if has(redis.call('HGET', prefix .. '${KEY.tokens}', indexed(digest))) then return {'taken', stamp} end
if has(redis.call('GET', prefix .. '${KEY.grace}' .. digest)) then return {'taken', stamp} end
local entry = redis.call('GET', key)
local is_own = entry and holder_of(entry) == id
if entry and not is_own and entry ~= replaced then return {'other', stamp, entry} end
if is_own and anew == '' then return {'done', stamp, entry} end
local last = tonumber(entry and string.match(entry, '^%d+') or '0')
entry = string.format('%.0f', now > last and now or last + 1.0) .. ':' .. id
redis.call('SET', key, entry)
return {is_own and 'shared' or 'done', stamp, entry}`,
});

/**
 * Removes the entry of a token, at once or later, unless it was made anew: its group no longer has the token, or is found by
 * the index. Answers `kept` or `done`.
 */
export const FORGET_TOKEN = changeScript("ugForgetToken", {
  isAlone: true,
  args: ["entry", "keepMs"],
  lua: `if redis.call('GET', key) ~= entry then return {'kept', stamp} end
if keepMs == '0' then redis.call('DEL', key) else redis.call('PEXPIRE', key, keepMs) end
return {'done', stamp}`,
});

/**
 * Reads a group if it has a token. Answers nothing; or `current` or `graced`, Redis' clock, the id as a field and the
 * record.
 */
export const READ_HOLDER = readScript("ugReadHolder", {
  isAlone: true,
  args: ["id", "digest"],
  lua: `${GRACE}
local state
if redis.call('HGET', key, '${FIELD.digest}') == digest then state = 'current'
elseif grace_left(key, digest) > 0 then state = 'graced'
else return {} end
return {state, stamp, '${FIELD.providedId}', id, spread(redis.call('HGETALL', key))}`,
});

/** For how long the entry of a token that is replaced may still be needed, in milliseconds. @param graceMs of the token */
export function keptFor(graceMs: number): number {
  return graceMs > 0 ? graceMs + SLACK_MS : 0;
}

/**
 * The partition whose indexes have a token: a token of ours names it; for any other token it follows from the digest.
 *
 * @throws TokenNotFound when no group can have the token
 */
export function tokenPartition(environment: Environment, token: string, digest: string): number {
  const shape = userGroupTokenShape(token);
  if (shape.kind === "malformed") throw new TokenNotFound(true);
  const isNamed = shape.kind === "ours" && shape.partition < environment.partitions;
  return isNamed ? shape.partition : partitionOf(environment, digest);
}

/** A token that is to be found by its entry. */
export interface ClaimedToken {
  readonly text: string;
  readonly digest: string;
  /** Whether its group is about to be given it; else the group has it, and its entry may be lost. */
  readonly isGiven: boolean;
}

/**
 * Makes the entry of a token for a group, which may be given the token for `CLAIM_MS` from before this call.
 *
 * @returns the entry, as `FIELD.entry` has it. Its time is 0 when it must not be removed: `forgetLater` finds no such entry
 * @throws TokenTaken when another group has it, or may be about to be given it; StoreUnavailable
 */
export async function claimToken(
  client: StoreClient,
  environment: Environment,
  id: string,
  { text, digest, isGiven }: ClaimedToken,
): Promise<string> {
  const partition = tokenPartition(environment, text, digest);
  const prefix = partitionPrefix(environment, partition);
  const key = prefix + KEY.foreign + digest;
  let replaced = "";
  while (true) {
    const args = { key, prefix, digest, id, replaced, anew: isGiven };
    const [state, now, entry = ""] = await client.prepare("claim-token", CLAIM_TOKEN, args);
    const [time = "", holder] = divided(entry);
    if (state === "done") return `${partition}:${time}`;
    if (state === "shared") return `${partition}:0`;
    // Another caller has replaced the old entry first.
    if (state === "taken" || replaced !== "" || Number(now) - Number(time) <= OLD_MS) throw new TokenTaken();
    // The entry is too old for anything to give its group the token after this look.
    const at = { key: locateGroup(environment, holder).key, id: holder, digest };
    if ((await client.ask("claim-token", READ_HOLDER, at, "not_made")).length > 0) throw new TokenTaken();
    replaced = entry;
  }
}

/**
 * Removes the entry of a token that a group no longer has. Nobody waits for it: when it fails, the entry that stays leads to
 * nothing, and another group may take it over. An entry that was made anew meanwhile stays.
 *
 * @param ended the group's id and its entry, as `FIELD.endedEntry` has it, empty when there is none; and for how long it may
 *   still be needed, in milliseconds
 */
export function forgetLater(
  client: StoreClient,
  environment: Environment,
  ended: { readonly id: string; readonly entry: string; readonly keepMs?: number },
): void {
  if (ended.entry === "") return;
  const [partition, rest] = divided(ended.entry);
  const [time, digest] = divided(rest);
  const key = partitionPrefix(environment, Number(partition)) + KEY.foreign + digest;
  const args = { key, entry: `${time}:${ended.id}`, keepMs: ended.keepMs ?? 0 };
  client.change("forget-token", FORGET_TOKEN, args).catch(() => {});
}

/** The parts before and after the first colon. */
function divided(text: string): [string, string] {
  const at = text.indexOf(":");
  return [text.slice(0, Math.max(at, 0)), text.slice(at + 1)];
}
