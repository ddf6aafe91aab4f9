import type { ChangeBy } from "../../domain/audit.ts";
import type { Environment } from "../../domain/environment.ts";
import { DomainError, StoreUnavailable, TokenNotImportable, UserGroupExists } from "../../domain/errors.ts";
import type { ImportOutcome } from "../../domain/store.ts";
import { isMalformedUserGroupToken, newUserGroupToken } from "../../domain/token.ts";
import type { ImportedUserGroup, ImportOptions, UserGroupChange } from "../../domain/user-group.ts";
import { changeEnvironment, requireNoRefusal } from "../audit.ts";
import { tokenDigest } from "../encryption.ts";
import { environmentKey, groupKey, idsKey, tokensKey } from "../keys.ts";
import { inBatches, isEmpty, type StoredRecord } from "../records.ts";
import { REPAIR_TOKEN, WRITE_GROUP } from "../scripts.ts";
import {
  type ChangedFields,
  changeArgs,
  changedFields,
  FIELD,
  GROUP_FIELDS,
  type GroupDeps,
  hasValue,
  setToken,
  tokenTimeOf,
  versionOf,
} from "./group-record.ts";
import { teamIdArgs } from "./user-groups.ts";

/** How many groups are imported at once: their records have to fit into memory, and Redis is not ours alone. */
const AT_ONCE = 50;

/** How often a group is tried again that others change at the same time. */
const TRIES = 10;

/** Where and how groups are imported, by whom, and with which parts of the store. */
interface Import extends GroupDeps, ImportOptions {
  readonly environment: Environment;
  readonly by: ChangeBy;
}

/** What an import does with a group. */
interface Plan {
  readonly outcome: "created" | "updated" | "unchanged" | "token-newer";
  /** The fields to write, with their names for callers. */
  readonly fields: ChangedFields;
  /** The token that the group gets; undefined: it keeps its own. */
  readonly given: GivenToken | undefined;
}

/** A token that is to be given to a group. */
interface GivenToken {
  readonly text: string;
  readonly digest: string;
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
  const { client, validateOnly = false } = how;
  const key = groupKey(how.environment.number, group.providedId);
  try {
    const token = group.token === undefined ? undefined : givenToken(group.token);
    for (let tries = 0; tries < TRIES; tries++) {
      const record = await client.run("import-read", "hgetall", [key], "not_made");
      const plan = planOf(group, record, { token, how });
      const changedFields = plan.fields.names;
      if (changedFields.length === 0) {
        if (!validateOnly && token && record[FIELD.digest] === token.digest) await requireEntry(group, token, how);
        return { outcome: plan.outcome, changedFields };
      }
      if (!isEmpty(record) && how.mode === "create-only") throw new UserGroupExists();
      const isDone = validateOnly || (await write(group, record, { plan, token, how }));
      if (isDone) return { outcome: plan.outcome, changedFields };
    }
    throw new StoreUnavailable(new Error("import: others change the group all the time"), "not_made");
  } catch (error) {
    if (error instanceof DomainError) return { outcome: "failed", error };
    throw error;
  }
}

/** Compares a group with its record. A token that is younger than the import stays, unless it is to be replaced. */
function planOf(
  group: ImportedUserGroup,
  record: StoredRecord,
  { token, how }: { readonly token: GivenToken | undefined; readonly how: Import },
): Plan {
  const isNew = isEmpty(record);
  const isOther = token !== undefined && record[FIELD.digest] !== token.digest;
  const isKept = !isNew && isOther && !how.replaceNewerTokens && tokenTimeOf(record) > how.snapshotTime;
  const differing = GROUP_FIELDS.filter((name) => !hasValue(record, name, group[name]));
  const change: UserGroupChange = Object.fromEntries(differing.map((name) => [name, group[name] ?? null]));
  const fields = changedFields(isNew ? group : change);
  const given = isNew ? (token ?? givenToken(newUserGroupToken())) : isOther && !isKept ? token : undefined;
  if (given) fields.names.push("token");
  const outcome = isNew ? "created" : isKept ? "token-newer" : fields.names.length > 0 ? "updated" : "unchanged";
  return { outcome, fields, given };
}

/** Writes a group as planned. @returns false if others have changed the group since its record was read */
async function write(
  { providedId }: ImportedUserGroup,
  record: StoredRecord,
  { plan, token, how }: { readonly plan: Plan; readonly token: GivenToken | undefined; readonly how: Import },
): Promise<boolean> {
  const { environment, cipher, snapshotTime, graceMs } = how;
  const { number } = environment;
  const { fields, given } = plan;
  const names = [...fields.names];
  if (given !== undefined) setToken(fields, cipher.encrypt(environment, given.text, given.digest));
  if (given !== undefined && given === token) {
    // No group's token ever dates from earlier than the one before, so that what was replaced once stays so.
    const before = isEmpty(record) ? Number.NEGATIVE_INFINITY : tokenTimeOf(record);
    if (before > snapshotTime) names.push("replace_newer_tokens");
    fields.set.push(FIELD.tokenCreateTime, String(Math.max(snapshotTime, before)));
  }
  const digest = given?.digest ?? "";
  const answer = await changeEnvironment(how, "import", WRITE_GROUP, {
    group: groupKey(number, providedId),
    ids: idsKey(number),
    tokens: tokensKey(number, digest || "00"),
    id: providedId,
    expected: versionOf(record),
    digest,
    graceMs,
    ...teamIdArgs(number),
    ...changeArgs({ ...fields, names }),
  });
  return answer[0] !== "changed";
}

/** Requires that a group is found by the token that it has: the index may have lost the entry. @throws TokenTaken */
async function requireEntry({ providedId }: ImportedUserGroup, token: GivenToken, { client, environment }: Import) {
  const { number } = environment;
  const tokens = tokensKey(number, token.digest);
  const [holder] = await client.run("import-read", "hmget", [tokens, token.digest.slice(2)], "not_made");
  if (holder === providedId) return;
  const keys = { environment: environmentKey(number), group: groupKey(number, providedId), tokens };
  const args = { ...keys, id: providedId, digest: token.digest };
  requireNoRefusal(await client.change("repair-token", REPAIR_TOKEN, args));
}

/** A token that is given to a group. @throws TokenNotImportable */
function givenToken(text: string): GivenToken {
  if (isMalformedUserGroupToken(text)) throw new TokenNotImportable();
  return { text, digest: tokenDigest(text) };
}
