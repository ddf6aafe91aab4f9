import { isDeepStrictEqual } from "node:util";
import type { ChangeBy } from "../../domain/audit.ts";
import { type Environment, teamIdsOf } from "../../domain/environment.ts";
import {
  DomainError,
  RecordUnreadable,
  StoreUnavailable,
  TokenNotImportable,
  UserGroupExists,
} from "../../domain/errors.ts";
import type { ImportOutcome } from "../../domain/store.ts";
import { newUserGroupToken, userGroupTokenShape } from "../../domain/token.ts";
import type { ImportedUserGroup, ImportOptions, UserGroupChange } from "../../domain/user-group.ts";
import { auditedScript } from "../audit/audit.ts";
import { tokenDigest } from "../encryption/encryption.ts";
import { KEY, locateGroup } from "../keys.ts";
import { inBatches, isEmpty, type StoredRecord } from "../records.ts";
import { CHANGED, DROP, FIELD, INDEXED, PIECES, REPLACE } from "./fields.ts";
import { CLAIM_MS, claimToken, forgetLater, keptFor } from "./foreign-tokens.ts";
import {
  changeArgs,
  changedFields,
  type GroupDeps,
  joinPieces,
  requireDone,
  tokenFields,
  tokenTimeOf,
} from "./group-record.ts";

/** How many groups are imported at once: their records have to fit into memory, and Redis is not ours alone. */
const AT_ONCE = 50;

/** How often a group is tried again that others change meanwhile. */
const TRIES = 10;

/**
 * Writes a group as given, if its `updateTime` is this one or, where that is empty, if there is no such group. Unless
 * `digest` is empty, the group gets the token with that digest, which is put into the partition's index if `isIndexed`, and
 * the token that it had gets the grace. `first`, `step` and `count` are the partition's team ids; `names`, `replaced` and
 * the arguments after them are as in `UPDATE`.
 * Answers `changed` when that does not hold, with the record where there should be none; `unreadable` when the
 * record is not whole; `closed` when the environment is deleted; `full`; `created` and the team id; or `done` and what
 * `endedEntry` holds.
 */
export const WRITE_GROUP = auditedScript("ugWriteGroup", {
  made: ["created", "done"],
  args: ["prefix", "id", "updateTime", "digest", "isIndexed", "graceMs", "first", "step", "count", "names", "replaced"],
  lua: `${INDEXED}${REPLACE}${DROP}${CHANGED}
local is_indexed = isIndexed ~= ''
local tokens, ids, counter = prefix .. '${KEY.tokens}', prefix .. '${KEY.ids}', prefix .. '${KEY.teamCount}'
local before = last_change(key)
if (before or '') ~= updateTime then
  return {'changed', stamp, spread(updateTime == '' and redis.call('HGETALL', key) or {})}
end
if before and not tonumber(before) or not before and redis.call('EXISTS', key) == 1 then return {'unreadable', stamp} end
if before and not redis.call('HGET', key, '${FIELD.digest}') then return {'unreadable', stamp} end
redis.call('HLEN', tokens)
redis.call('ZSCORE', ids, id)
local set = rest + 2 * tonumber(replaced)
local outcome, told = 'done', ''
if not before then
  if redis.call('EXISTS', prefix .. '${KEY.closed}' .. first) == 1 then return {'closed', stamp} end
  outcome = 'created'
  local used = tonumber(redis.call('GET', counter) or '0')
  if used >= tonumber(count) then return {'full', stamp} end
  redis.call('ZADD', ids, '0', id)
  if is_indexed then redis.call('HSET', tokens, indexed(digest), id) end
  redis.call('SET', counter, string.format('%.0f', used + 1))
  told = string.format('%.0f', first + (step + 0.0) * used)
  redis.call('HSET', key, '${FIELD.createTime}', stamp, '${FIELD.digest}', digest, '${FIELD.teamId}', told,
    spread(ARGV, set))
else
  if digest ~= '' then told = replace(prefix, key, id, digest, is_indexed, graceMs) end
  redis.call('HSET', key, '${FIELD.updateTime}', after(tonumber(before)), spread(ARGV, set))
  for i = rest, set - 1, 2 do drop(key, ARGV[i], tonumber(ARGV[i + 1])) end
end
audit(id, names)
return {outcome, stamp, told}`,
});

/** Where and how groups are imported, by whom, and with which parts of the store. */
interface Import extends GroupDeps, ImportOptions {
  readonly environment: Environment;
  readonly by: ChangeBy;
}

/** What is to be done with a group. */
interface Plan {
  readonly change: UserGroupChange;
  /** The token that it is given; undefined: it keeps its own. */
  readonly given: GivenToken | undefined;
  /** What becomes of the group. */
  readonly outcome: "created" | "updated" | "unchanged" | "token-newer";
  /** Whether anything is to be written. */
  readonly isChanged: boolean;
}

/** A token that is to be given to a group. */
interface GivenToken {
  readonly text: string;
  readonly digest: string;
  /** Whether the index of the group's partition leads to it. */
  readonly isIndexed: boolean;
}

/**
 * Imports user groups, each independently of the others; a batch takes no more round trips than one group. No id and no
 * token may occur twice among them. The outcomes are in the order of the groups.
 */
export async function importGroups(groups: readonly ImportedUserGroup[], how: Import): Promise<ImportOutcome[]> {
  const outcomes: ImportOutcome[] = [];
  for await (const ended of inBatches(groups, AT_ONCE, (group) => importGroup(group, how))) {
    outcomes.push(...ended);
    // Each batch would wait for as long as this one did.
    if (ended.every((each) => each.outcome === "failed" && each.error instanceof StoreUnavailable)) break;
  }
  while (outcomes.length < groups.length) {
    outcomes.push({ outcome: "failed", error: new StoreUnavailable(new Error("import: given up"), "not_made") });
  }
  return outcomes;
}

/** Imports one group. */
async function importGroup(group: ImportedUserGroup, how: Import): Promise<ImportOutcome> {
  const { client, cipher, audit, environment, snapshotTime, graceMs, by, validateOnly = false } = how;
  const { providedId, name, mapping, properties } = group;
  const { partition, prefix, key } = locateGroup(environment, providedId);
  /** The token that the import brings. */
  let token: GivenToken | undefined;
  /** The entry that was made for that token, as long as the group does not get the token. */
  let unusedEntry = "";

  /** What of a group is not as it is given. A token that is younger than the import stays, unless it is to be replaced. */
  const planOf = (record: StoredRecord): Plan => {
    if (isEmpty(record)) {
      const given = token ?? givenToken(newUserGroupToken(partition), partition);
      return { change: group, given, outcome: "created", isChanged: true };
    }
    const isOther = token !== undefined && record[FIELD.digest] !== token.digest;
    const isKept = isOther && !how.replaceNewerTokens && tokenTimeOf(record) > snapshotTime;
    const change = {
      ...(record[FIELD.name] !== name && { name }),
      ...(!isSame(joinPieces(record, PIECES.mapping), mapping) && { mapping }),
      ...(!isSame(joinPieces(record, PIECES.properties), properties) && { properties: properties ?? null }),
    };
    const given = isOther && !isKept ? token : undefined;
    const isChanged = given !== undefined || Object.keys(change).length > 0;
    return { change, given, isChanged, outcome: isKept ? "token-newer" : isChanged ? "updated" : "unchanged" };
  };

  /** What changes, as the script takes it. @param entry of the token that is given */
  const fieldsOf = (record: StoredRecord, { change, given }: Plan, entry: string) => {
    const fields = changedFields(change);
    const { names, replaced, set } = fields;
    if (given !== undefined) {
      const encrypted = cipher.encrypt(environment, given.text, given.digest);
      const ofToken = tokenFields(encrypted);
      names.push("token");
      set.push(...ofToken);
      replaced.push(PIECES.foreignToken, String(encrypted.isPacked ? 0 : ofToken.length / 2 - 1));
      if (!given.isIndexed) set.push(FIELD.entry, entry);
      if (given === token) {
        // No group's token ever dates from earlier than the one before, so that what was replaced once stays so.
        const before = isEmpty(record) ? Number.NEGATIVE_INFINITY : tokenTimeOf(record);
        if (before > snapshotTime) names.push("replace_newer_tokens");
        set.push(FIELD.tokenCreateTime, String(Math.max(snapshotTime, before)));
      }
    }
    return changeArgs(fields);
  };

  /** Makes the entry of the token, then writes the group. @returns false when the group has changed meanwhile */
  const write = async (record: StoredRecord, plan: Plan): Promise<boolean> => {
    const { given } = plan;
    const sendBy = performance.now() + CLAIM_MS;
    let entry = "";
    if (given && given === token) {
      entry = await claimToken(client, environment, providedId, { ...given, isGiven: true });
      unusedEntry = `${entry}:${given.digest}`;
    }
    const args = {
      ...{ key, prefix, id: providedId, updateTime: record[FIELD.updateTime] ?? record[FIELD.createTime] },
      ...{ digest: given?.digest, isIndexed: given?.isIndexed, graceMs },
      ...teamIdsOf(environment, partition),
      ...fieldsOf(record, plan, entry),
      ...audit.ofPartition(prefix, by),
    };
    const answer = await client.change("import", WRITE_GROUP, args, sendBy).catch((error: unknown) => {
      const isRefused = error instanceof StoreUnavailable && error.outcome === "not_made";
      if (!isRefused) unusedEntry = "";
      throw error;
    });
    const [state, , ended = ""] = requireDone("import", answer);
    if (state === "changed") return false;
    if (given && !given.isIndexed) unusedEntry = "";
    // Otherwise it is the team id of a new group.
    if (state === "done") forgetLater(client, environment, { id: providedId, entry: ended, keepMs: keptFor(graceMs) });
    return true;
  };

  try {
    token = group.token === undefined ? undefined : givenToken(group.token, partition);
    for (let tries = 0; tries < TRIES; tries++) {
      const record = await client.run("import-read", "hgetall", [key], "not_made");
      // Another import gave the group the token.
      if (record[FIELD.digest] === token?.digest) unusedEntry = "";
      const plan = planOf(record);
      if (!plan.isChanged) {
        // The entry of a token that the group has may be lost, and nobody would find the group by it.
        if (!validateOnly && token !== undefined && !token.isIndexed && record[FIELD.digest] === token.digest)
          await claimToken(client, environment, providedId, { ...token, isGiven: false });
        return { outcome: plan.outcome, changedFields: [] };
      }
      if (!isEmpty(record) && how.mode === "create-only") throw new UserGroupExists();
      const isDone = validateOnly || (await write(record, plan));
      if (isDone) return { outcome: plan.outcome, changedFields: namesOf(plan) };
    }
    throw new StoreUnavailable(new Error("import: others change the group all the time"), "not_made");
  } catch (error) {
    if (error instanceof DomainError) return { outcome: "failed", error };
    throw error;
  } finally {
    forgetLater(client, environment, { id: providedId, entry: unusedEntry });
  }
}

/** The names of the fields that have new values. */
function namesOf({ change, given }: Plan): string[] {
  return [...changedFields(change).names, ...(given === undefined ? [] : ["token"])];
}

/** Whether a JSON text stands for a value, in whatever order its keys are. @throws RecordUnreadable */
function isSame(stored: string | undefined, given: object | undefined): boolean {
  if (stored === undefined || given === undefined) return stored === given;
  // As it would be stored, -0 for example is 0.
  const text = JSON.stringify(given);
  if (stored === text) return true;
  try {
    return isDeepStrictEqual(JSON.parse(stored), JSON.parse(text));
  } catch (cause) {
    throw new RecordUnreadable(cause);
  }
}

/** A token that is given to a group of a partition. @throws TokenNotImportable */
function givenToken(text: string, partition: number): GivenToken {
  const shape = userGroupTokenShape(text);
  if (shape.kind === "malformed") throw new TokenNotImportable();
  return { text, digest: tokenDigest(text), isIndexed: shape.kind === "ours" && shape.partition === partition };
}
