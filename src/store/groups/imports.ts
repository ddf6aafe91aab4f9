import { isDeepStrictEqual } from "node:util";
import type { ChangeBy } from "../../domain/audit.ts";
import { type Environment, TEAM_IDS } from "../../domain/environment.ts";
import { DomainError, StoreUnavailable, TokenNotImportable, UserGroupExists } from "../../domain/errors.ts";
import type { ImportOutcome } from "../../domain/store.ts";
import { isMalformedUserGroupToken, newUserGroupToken } from "../../domain/token.ts";
import { EXPIRED, type ImportedUserGroup, type ImportOptions, type UserGroupChange } from "../../domain/user-group.ts";
import { changeEnvironment, requireNoRefusal } from "../audit.ts";
import { tokenDigest } from "../encryption.ts";
import { environmentKey, groupKey, tokensKey } from "../keys.ts";
import { inBatches, isEmpty, readRecord, type StoredRecord } from "../records.ts";
import { REPAIR_TOKEN, WRITE_GROUP } from "../scripts.ts";
import {
  type ChangedFields,
  changeArgs,
  changedFields,
  FIELD,
  GROUP_FIELDS,
  type GroupDeps,
  hasValue,
  setSuspension,
  setToken,
  suspensionOf,
  tokenTimeOf,
  versionOf,
} from "./group-record.ts";

/**
 * The number of groups that are imported concurrently. The limit bounds the memory for records, and leaves time for
 * other callers of Redis.
 */
const AT_ONCE = 50;

const TRIES = 10;

interface Import extends GroupDeps, ImportOptions {
  readonly environment: Environment;
  readonly by: ChangeBy;
}

interface Plan {
  readonly outcome: Exclude<ImportOutcome["outcome"], "failed">;
  readonly fields: ChangedFields;
  /** The new token. Undefined if the group keeps its token. */
  readonly given: GivenToken | undefined;
  /**
   * Whether the write fails if the group has expired since its record was read. True if the write changes the expiry
   * time, because a new expiry time would resume an expired group.
   */
  readonly unlessExpired: boolean;
}

interface GivenToken {
  readonly text: string;
  readonly digest: string;
}

/** Imports groups, and returns the outcomes in the order of the groups. Ids and tokens must be unique. */
export async function importGroups(groups: readonly ImportedUserGroup[], how: Import): Promise<ImportOutcome[]> {
  const outcomes: ImportOutcome[] = [];
  for await (const ended of inBatches(groups, AT_ONCE, (group) => importGroup(group, how))) {
    outcomes.push(...ended);
    // If Redis was unavailable for every group of a batch, the next batch would probably only wait for its timeout.
    if (ended.every((each) => each.outcome === "failed" && each.error instanceof StoreUnavailable)) break;
  }
  while (outcomes.length < groups.length) {
    outcomes.push({
      outcome: "failed",
      error: new StoreUnavailable(new Error("import: stopped because Redis is unavailable"), "not_made"),
    });
  }
  return outcomes;
}

async function importGroup(group: ImportedUserGroup, how: Import): Promise<ImportOutcome> {
  const { client, mode, validateOnly } = how;
  const key = groupKey(how.environment.number, group.providedId);
  try {
    const token = group.token === undefined ? undefined : givenToken(group.token);
    for (let tries = 0; tries < TRIES; tries++) {
      const { record, now } = await readRecord(client, "import-read", key, "not_made");
      const plan = planOf(group, record, { token, how, now });
      const changedFields = plan.fields.names;
      if (changedFields.length === 0) {
        if (!validateOnly && token && record[FIELD.digest] === token.digest) await repairEntry(group, token, how);
        return { outcome: plan.outcome, changedFields };
      }
      if (!isEmpty(record) && mode === "create-only") throw new UserGroupExists();
      const isDone = validateOnly || (await write(group, record, { plan, how }));
      if (isDone) return { outcome: plan.outcome, changedFields };
    }
    throw new StoreUnavailable(new Error("import: concurrent calls changed the group in each attempt"), "not_made");
  } catch (error) {
    if (error instanceof DomainError) return { outcome: "failed", error };
    throw error;
  }
}

/**
 * Compares an imported group with its record. If the stored token is younger than the snapshot, and
 * `replaceNewerTokens` is false, the stored token stays. A suspended group keeps its suspension and its expiry time.
 */
function planOf(
  { suspension, ...group }: ImportedUserGroup,
  record: StoredRecord,
  { token, how, now }: { readonly token: GivenToken | undefined; readonly how: Import; readonly now: number },
): Plan {
  const isNew = isEmpty(record);
  const isOther = token !== undefined && record[FIELD.digest] !== token.digest;
  const isKept = !isNew && isOther && !how.replaceNewerTokens && tokenTimeOf(record) > how.snapshotTime;
  const current = suspensionOf(record, now);
  const isSuspended = current !== undefined;
  const isSameState =
    isDeepStrictEqual(current?.reason === EXPIRED ? undefined : current, suspension) &&
    hasValue(record, "expireTime", group.expireTime);
  const differing = GROUP_FIELDS.filter(
    (name) => !(isSuspended && name === "expireTime") && !hasValue(record, name, group[name]),
  );
  const change: UserGroupChange = Object.fromEntries(differing.map((name) => [name, group[name] ?? null]));
  const fields = changedFields(change);
  const given = isNew ? (token ?? givenToken(newUserGroupToken())) : isOther && !isKept ? token : undefined;
  if (given) fields.names.push("token");
  if (!isSuspended && suspension && (suspension.until ?? Number.POSITIVE_INFINITY) > now)
    setSuspension(fields, suspension);
  const changed = fields.names.length > 0 ? "updated" : "unchanged";
  const outcome = isNew ? "created" : isSuspended && !isSameState ? "suspended" : isKept ? "token-newer" : changed;
  return { outcome, fields, given, unlessExpired: differing.includes("expireTime") };
}

/** Writes a group. Returns false if another call has changed the group since its record was read. */
async function write(
  { providedId, token }: ImportedUserGroup,
  record: StoredRecord,
  { plan, how }: { readonly plan: Plan; readonly how: Import },
): Promise<boolean> {
  const { environment, cipher, snapshotTime, graceMs } = how;
  const { fields, given, unlessExpired } = plan;
  const names = [...fields.names];
  if (given) setToken(fields, cipher.encrypt(environment, given.text, given.digest));
  if (given && token !== undefined) {
    // The creation time of the new token is the snapshot time or the creation time of the replaced token, whichever is
    // later. A later import of an older snapshot therefore does not replace the new token.
    const before = isEmpty(record) ? Number.NEGATIVE_INFINITY : tokenTimeOf(record);
    if (before > snapshotTime) names.push("replace_newer_tokens");
    fields.set.push(FIELD.tokenCreateTime, String(Math.max(snapshotTime, before)));
  }
  const answer = await changeEnvironment(how, "import", WRITE_GROUP, {
    id: providedId,
    expectedVersion: versionOf(record),
    digest: given?.digest,
    graceMs,
    unlessExpired,
    teamIds: TEAM_IDS,
    ...changeArgs({ ...fields, names }),
  });
  return answer[0] !== "changed";
}

/** Restores the index entry of a group's token if Redis has lost the entry. @throws TokenTaken */
async function repairEntry({ providedId }: ImportedUserGroup, token: GivenToken, { client, environment }: Import) {
  const { number } = environment;
  const tokens = tokensKey(number, token.digest);
  const [holder] = await client.run("import-read", "hmget", [tokens, token.digest.slice(2)], "not_made");
  if (holder === providedId) return;
  const keys = { environment: environmentKey(number), group: groupKey(number, providedId), tokens };
  const args = { ...keys, id: providedId, digest: token.digest };
  requireNoRefusal(await client.change("repair-token", REPAIR_TOKEN, args));
}

function givenToken(text: string): GivenToken {
  if (isMalformedUserGroupToken(text)) throw new TokenNotImportable();
  return { text, digest: tokenDigest(text) };
}
