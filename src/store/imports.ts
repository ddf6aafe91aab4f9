import { isDeepStrictEqual } from "node:util";
import type { ChangeBy } from "../domain/audit.ts";
import { type Environment, partitionOf, teamIdsOf } from "../domain/environment.ts";
import {
  DomainError,
  EnvironmentFull,
  EnvironmentNotFound,
  RecordUnreadable,
  StoreUnavailable,
  TokenNotImportable,
  UserGroupExists,
} from "../domain/errors.ts";
import { newUserGroupToken, userGroupTokenShape } from "../domain/token.ts";
import type { ImportedUserGroup, ImportOptions, ImportOutcome, UserGroupChange } from "../domain/user-group.ts";
import { tokenDigest } from "./encryption.ts";
import { FIELD, joinPieces, PIECES } from "./fields.ts";
import { CLAIM_MS, keptFor } from "./foreign-tokens.ts";
import type { GroupParts } from "./group-parts.ts";
import { changedFields, tokenFields, tokenTimeOf, updateTimeFromRecord } from "./group-record.ts";
import { groupKeyOf, placeOf } from "./keys.ts";
import { isEmpty, type StoredRecord } from "./stored-record.ts";

/** How many groups are imported at once: their records have to fit into memory, and Redis is not ours alone. */
const AT_ONCE = 50;

/** How often a group is tried again that others change meanwhile. */
const TRIES = 10;

/** How groups are imported, and by whom. */
interface Import extends ImportOptions {
  readonly by: ChangeBy;
}

/** What is to be done with a group. */
interface Plan {
  readonly change: UserGroupChange;
  /** The token that it is given; undefined: it keeps its own. */
  readonly given: GivenToken | undefined;
  /** What is told of it when it is there. */
  readonly outcome: "updated" | "unchanged" | "token-newer";
}

/** A token that is to be given to a group. */
interface GivenToken {
  readonly text: string;
  readonly digest: string;
  /** Whether the index of the group's partition leads to it. */
  readonly isIndexed: boolean;
}

/**
 * Imports user groups whose ids and tokens are not given twice: each for itself, in as few round trips as all of a batch
 * together. The outcomes are in their order.
 */
export async function importGroups(
  parts: GroupParts,
  environment: Environment,
  groups: readonly ImportedUserGroup[],
  how: Import,
): Promise<ImportOutcome[]> {
  const outcomes: ImportOutcome[] = [];
  for (let start = 0; start < groups.length; start += AT_ONCE) {
    const batch = groups.slice(start, start + AT_ONCE).map((group) => importGroup(parts, environment, group, how));
    // An error that nobody foresaw is told once nothing is under way any more.
    await Promise.allSettled(batch);
    const ended = await Promise.all(batch);
    outcomes.push(...ended);
    // Each batch would wait for as long as this one did.
    if (ended.every((each) => each.outcome === "failed" && each.error instanceof StoreUnavailable)) break;
  }
  while (outcomes.length < groups.length) {
    outcomes.push({ outcome: "failed", error: new StoreUnavailable(new Error("import: given up"), "not_made") });
  }
  return outcomes;
}

async function importGroup(...args: ConstructorParameters<typeof GroupImport>): Promise<ImportOutcome> {
  try {
    return await new GroupImport(...args).run();
  } catch (error) {
    if (error instanceof DomainError) return { outcome: "failed", error };
    throw error;
  }
}

/** The import of one group. */
class GroupImport {
  readonly #parts: GroupParts;
  readonly #environment: Environment;
  readonly #group: ImportedUserGroup;
  readonly #how: Import;
  /** The token that the import brings. */
  readonly #token: GivenToken | undefined;
  /** The entry of that token that was made and that the group has not been given it under, nor will be. */
  #unusedEntry = "";

  /** @throws TokenNotImportable */
  constructor(parts: GroupParts, environment: Environment, group: ImportedUserGroup, how: Import) {
    this.#parts = parts;
    this.#environment = environment;
    this.#group = group;
    this.#how = how;
    this.#token = givenToken(environment, group);
  }

  /** @throws DomainError */
  async run(): Promise<ImportOutcome> {
    try {
      return await this.#try();
    } finally {
      this.#parts.foreignTokens.forgetLater(this.#environment, this.#unusedEntry, this.#group.providedId);
    }
  }

  async #try(): Promise<ImportOutcome> {
    const key = groupKeyOf(this.#environment, this.#group.providedId);
    for (let tries = 0; tries < TRIES; tries++) {
      const record = await this.#parts.client.run("import-read", "hgetall", [key], "not_made");
      // Another import gave the group the token.
      if (record[FIELD.digest] === this.#token?.digest) this.#unusedEntry = "";
      const plan = this.#planOf(record);
      if (!isEmpty(record)) {
        if (Object.keys(plan.change).length === 0 && plan.given === undefined) {
          await this.#mendEntry(record);
          return { outcome: plan.outcome };
        }
        if (this.#how.mode === "create-only") throw new UserGroupExists();
      }
      const state = await this.#write(record, plan);
      if (state !== "changed") return { outcome: state === "created" ? "created" : plan.outcome };
    }
    throw new StoreUnavailable(new Error("import: others change the group all the time"), "not_made");
  }

  /** What of a group is not as it is given. A token that is younger than the import stays, unless it is to be replaced. */
  #planOf(record: StoredRecord): Plan {
    const { providedId, name, mapping, properties } = this.#group;
    const token = this.#token;
    if (isEmpty(record)) {
      const given = token ?? ownToken(partitionOf(this.#environment, providedId));
      return { change: this.#group, given, outcome: "unchanged" };
    }
    const isOther = token !== undefined && record[FIELD.digest] !== token.digest;
    const isKept = isOther && !this.#how.replaceNewerTokens && tokenTimeOf(record) > this.#how.snapshotTime;
    const change = {
      ...(record[FIELD.name] !== name && { name }),
      ...(!isSame(joinPieces(record, PIECES.mapping), mapping) && { mapping }),
      ...(!isSame(joinPieces(record, PIECES.properties), properties) && { properties: properties ?? null }),
    };
    const given = isOther && !isKept ? token : undefined;
    const isChanged = given !== undefined || Object.keys(change).length > 0;
    return { change, given, outcome: isKept ? "token-newer" : isChanged ? "updated" : "unchanged" };
  }

  /** Makes the entry of the token, then writes the group; `changed` when that is to be done again. */
  async #write(record: StoredRecord, plan: Plan): Promise<"created" | "done" | "changed"> {
    const { client, audit, foreignTokens } = this.#parts;
    const environment = this.#environment;
    const { providedId } = this.#group;
    const { partition, prefix, key } = placeOf(environment, providedId);
    const { first, step, count } = teamIdsOf(environment, partition);
    const { given } = plan;
    const sendBy = performance.now() + CLAIM_MS;
    const entry = given && given === this.#token ? await this.#claim(given) : "";
    const args = [
      key,
      ...[isEmpty(record) ? "" : updateTimeFromRecord(record), prefix, providedId],
      ...[given?.digest ?? "", given?.isIndexed ? "1" : "", String(this.#how.graceMs)],
      ...[String(first), String(step), String(count)],
      ...this.#fieldsOf(record, plan, entry),
      ...audit.ofPartition(environment, partition, this.#how.by),
    ] as const;
    const [state, , ended = ""] = await client.change("import", "ugImport", args, sendBy).catch((error: unknown) => {
      const isRefused = error instanceof StoreUnavailable && error.outcome === "not_made";
      if (!isRefused) this.#unusedEntry = "";
      throw error;
    });
    switch (state) {
      case "created":
      case "done":
        this.#unusedEntry = "";
        foreignTokens.forgetLater(environment, ended, providedId, keptFor(this.#how.graceMs));
        return state;
      case "changed":
        return state;
      case "closed":
        throw new EnvironmentNotFound();
      case "full":
        throw new EnvironmentFull();
      default:
        throw new RecordUnreadable(new Error(`import: ${state}`));
    }
  }

  /** What changes, as the script takes it. @param entry of the token that is given */
  #fieldsOf(record: StoredRecord, { change, given }: Plan, entry: string): string[] {
    const { names, replaced, set } = changedFields(change);
    if (given !== undefined) {
      const encrypted = this.#parts.cipher.encrypt(this.#environment, given.text, given.digest);
      const fields = tokenFields(encrypted);
      names.push("token");
      set.push(...fields);
      replaced.push(PIECES.foreignToken, String(encrypted.isPacked ? 0 : fields.length / 2 - 1));
      if (!given.isIndexed) set.push(FIELD.entry, entry);
      if (given === this.#token) {
        // No group's token ever dates from earlier than the one before, so that what was replaced once stays so.
        const before = isEmpty(record) ? Number.NEGATIVE_INFINITY : tokenTimeOf(record);
        if (before > this.#how.snapshotTime) names.push("replace_newer_tokens");
        set.push(FIELD.tokenCreateTime, String(Math.max(this.#how.snapshotTime, before)));
      }
    }
    return [names.join(","), String(replaced.length / 2), ...replaced, ...set];
  }

  /** @returns the entry of the token, as `FIELD.entry` has it */
  async #claim(token: GivenToken): Promise<string> {
    const { providedId } = this.#group;
    const entry = await this.#parts.foreignTokens.claim(this.#environment, token, providedId, true);
    this.#unusedEntry = `${entry}:${token.digest}`;
    return entry;
  }

  /** The entry of a token that the group has may be lost, and nobody would find the group by it. */
  async #mendEntry(record: StoredRecord): Promise<void> {
    if (this.#token === undefined || this.#token.isIndexed || record[FIELD.digest] !== this.#token.digest) return;
    await this.#parts.foreignTokens.claim(this.#environment, this.#token, this.#group.providedId, false);
  }
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

/** The token that is given for a group. @throws TokenNotImportable */
function givenToken(environment: Environment, { providedId, token }: ImportedUserGroup): GivenToken | undefined {
  if (token === undefined) return undefined;
  const shape = userGroupTokenShape(token);
  if (shape.kind === "malformed") throw new TokenNotImportable();
  const isIndexed = shape.kind === "ours" && shape.partition === partitionOf(environment, providedId);
  return { text: token, digest: tokenDigest(token), isIndexed };
}

/** A new token for a group that is given none. */
function ownToken(partition: number): GivenToken {
  const text = newUserGroupToken(partition);
  return { text, digest: tokenDigest(text), isIndexed: true };
}
