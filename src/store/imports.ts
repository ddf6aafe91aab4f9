import { isDeepStrictEqual } from "node:util";
import type { ChangeBy } from "../domain/audit.ts";
import type { Environment } from "../domain/environment.ts";
import {
  DomainError,
  EnvironmentFull,
  RecordUnreadable,
  StoreUnavailable,
  TokenNotImportable,
  TokenTaken,
  UserGroupExists,
} from "../domain/errors.ts";
import { partitionOf } from "../domain/partition.ts";
import { teamIdsOf } from "../domain/team-id.ts";
import { newUserGroupToken, userGroupTokenShape } from "../domain/token.ts";
import type { UserGroupChange } from "../domain/user-group.ts";
import type { ImportedUserGroup, ImportMode, ImportOutcome } from "../domain/user-group-admin.ts";
import { tokenDigest } from "./encryption.ts";
import { FIELD, joinPieces, PIECES } from "./fields.ts";
import { CLAIM_MS } from "./foreign-tokens.ts";
import type { GroupParts } from "./group-parts.ts";
import { changedFields, tokenFields, updateTimeFromRecord } from "./group-record.ts";
import { groupKeyOf, placeOf, REQUEST_TTL_MS } from "./keys.ts";
import { isEmpty, type StoredRecord } from "./stored-record.ts";

/** How many groups are imported at once: their records have to fit into memory, and Redis is not ours alone. */
const AT_ONCE = 50;

/** How often a group is tried again that others change meanwhile. */
const TRIES = 10;

/** Who imports, and how. */
interface Import {
  readonly mode: ImportMode;
  readonly by: ChangeBy;
}

/** What is to be changed of a group. */
interface Plan {
  readonly change: UserGroupChange;
  /** The token that it gets; undefined: it keeps its own. */
  readonly given: GivenToken | undefined;
}

/** A token that is to be given to a group. */
interface GivenToken {
  readonly text: string;
  readonly digest: string;
  readonly isForeign: boolean;
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
  /** Whether a claim of the token may have been made: one that failed may have been. */
  #mayHaveClaimed = false;
  /** The nonce of a claim that was ended; the token needs another. */
  #endedClaim: string | undefined;

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
    } catch (error) {
      this.#releaseClaim();
      throw error;
    }
  }

  async #try(): Promise<ImportOutcome> {
    const key = groupKeyOf(this.#environment, this.#group.providedId);
    for (let tries = 0; tries < TRIES; tries++) {
      const record = await this.#parts.client.run("import-read", "hgetall", [key], "not_made");
      const { change, given } = this.#planOf(record);
      // Another import gave the group this token since it was claimed here, and it may have been replaced again.
      if (given === undefined) this.#releaseClaim();
      if (!isEmpty(record)) {
        if (Object.keys(change).length === 0 && given === undefined) {
          await this.#mendEntry(record);
          return { outcome: "unchanged" };
        }
        if (this.#how.mode === "create-only") throw new UserGroupExists();
      }
      const done = await this.#write(record, { change, given });
      if (done !== undefined) return done;
    }
    throw new StoreUnavailable(new Error("import: others change the group all the time"), "not_made");
  }

  /**
   * What of a group is not as it is given. A token that has been replaced since stays dead: neither one that an import gave
   * the group before is given again, nor one of this service once the group has had more than its first.
   */
  #planOf(record: StoredRecord): Plan {
    const { providedId, name, mapping, properties } = this.#group;
    const token = this.#token;
    if (isEmpty(record)) {
      return { change: this.#group, given: token ?? ownToken(partitionOf(this.#environment, providedId)) };
    }
    const isKnown = [record[FIELD.digest], record[FIELD.importedDigest]].includes(token?.digest);
    const mayBeDead = token?.isForeign === false && record[FIELD.tokenCreateTime] !== undefined;
    const change = {
      ...(record[FIELD.name] !== name && { name }),
      ...(!isSame(joinPieces(record, PIECES.mapping), mapping) && { mapping }),
      ...(!isSame(joinPieces(record, PIECES.properties), properties) && { properties: properties ?? null }),
    };
    return { change, given: isKnown || mayBeDead ? undefined : token };
  }

  /** Claims the token, then writes the group; undefined when that is to be done again. */
  async #write(record: StoredRecord, plan: Plan): Promise<ImportOutcome | undefined> {
    const { client, audit, foreignTokens } = this.#parts;
    const environment = this.#environment;
    const { providedId } = this.#group;
    const { partition, prefix, key } = placeOf(environment, providedId);
    const { first, step, count } = teamIdsOf(environment, partition);
    const { digest = "", isForeign = false } = plan.given ?? {};
    const claimed = performance.now();
    const nonce = isForeign ? await this.#claim(digest) : "";
    const args = [
      key,
      ...[isEmpty(record) ? "" : updateTimeFromRecord(record), prefix, providedId, digest, nonce],
      ...[String(first), String(step), String(count)],
      ...this.#fieldsOf(plan),
      ...audit.ofPartition(environment, partition, this.#how.by),
    ] as const;
    const sendBy = isForeign ? claimed + CLAIM_MS : undefined;
    const [state, , endedForeign = ""] = await client.change("import", "ugImport", args, sendBy);
    switch (state) {
      case "created":
        return { outcome: "created" };
      case "done":
        if (endedForeign !== "") foreignTokens.releaseLater(environment, endedForeign);
        return { outcome: "updated" };
      case "changed":
        return undefined;
      case "ended":
        this.#endedClaim = nonce;
        return undefined;
      case "taken":
        throw new TokenTaken();
      case "full":
        throw new EnvironmentFull();
      default:
        throw new RecordUnreadable(new Error(`import: ${state}`));
    }
  }

  /** What changes, as the script takes it. */
  #fieldsOf({ change, given }: Plan): string[] {
    const { names, replaced, set } = changedFields(change);
    if (given !== undefined) {
      const encrypted = this.#parts.cipher.encrypt(this.#environment, given.text, given.digest);
      const fields = tokenFields(encrypted);
      names.push("token");
      set.push(...fields);
      replaced.push(PIECES.foreignToken, String(encrypted.isPacked ? 0 : fields.length / 2 - 1));
      if (given === this.#token) set.push(FIELD.importedDigest, given.digest);
    }
    return [names.join(","), String(replaced.length / 2), ...replaced, ...set];
  }

  /** @returns the nonce of the claim */
  #claim(digest: string): Promise<string> {
    this.#mayHaveClaimed = true;
    return this.#parts.foreignTokens.claim(this.#environment, digest, this.#group.providedId, this.#endedClaim);
  }

  /** Releases a claim that may have been made and was not used. It does nothing when the group has the token. */
  #releaseClaim(): void {
    if (this.#token === undefined || !this.#mayHaveClaimed) return;
    // The group may have had it, and its retried rotation may need a hint.
    const release = { id: this.#group.providedId, keepMs: REQUEST_TTL_MS };
    this.#parts.foreignTokens.releaseLater(this.#environment, this.#token.digest, release);
  }

  /** The entry of a foreign token that the group has may be lost, and nobody would find the group by it. */
  async #mendEntry(record: StoredRecord): Promise<void> {
    if (this.#token?.isForeign !== true || record[FIELD.digest] !== this.#token.digest) return;
    await this.#parts.foreignTokens.mend(this.#environment, this.#token.digest, this.#group.providedId);
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

/**
 * The token that is given for a group. One that looks like ours has to be one that is found: of the partition of the group,
 * as an export of an environment with as many partitions has it.
 *
 * @throws TokenNotImportable
 */
function givenToken(environment: Environment, { providedId, token }: ImportedUserGroup): GivenToken | undefined {
  if (token === undefined) return undefined;
  const shape = userGroupTokenShape(token);
  if (shape.kind === "malformed") throw new TokenNotImportable();
  if (shape.kind === "ours" && shape.partition !== partitionOf(environment, providedId)) throw new TokenNotImportable();
  return { text: token, digest: tokenDigest(token), isForeign: shape.kind === "foreign" };
}

/** A new token for a group that is given none. */
function ownToken(partition: number): GivenToken {
  const text = newUserGroupToken(partition);
  return { text, digest: tokenDigest(text), isForeign: false };
}
