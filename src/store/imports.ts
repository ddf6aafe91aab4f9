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
import type { ImportedUserGroup, ImportMode, ImportOutcome } from "../domain/user-group-admin.ts";
import type { Audit } from "./audit.ts";
import type { StoreClient } from "./client.ts";
import { type TokenCipher, tokenDigest } from "./encryption.ts";
import { FIELD, joinPieces, PIECES, piecesOf } from "./fields.ts";
import { CLAIM_MS, type ForeignTokens } from "./foreign-tokens.ts";
import { tokenFields, updateTimeFromRecord } from "./group-record.ts";
import { groupKeyOf, partitionPrefix, REQUEST_TTL_MS } from "./keys.ts";
import { isEmpty, type StoredRecord } from "./stored-record.ts";

/** How many groups are imported at once: their records have to fit into memory, and Redis is not ours alone. */
const AT_ONCE = 50;

/** How often a group is tried again that others change meanwhile. */
const TRIES = 10;

/** What imports are made of. */
export interface ImportsParts {
  readonly client: StoreClient;
  readonly cipher: TokenCipher;
  readonly audit: Audit;
  readonly foreignTokens: ForeignTokens;
}

/** Who imports, and how. */
interface Import {
  readonly mode: ImportMode;
  readonly by: ChangeBy;
}

/** What is to be changed of a group. */
interface Plan {
  readonly fields: readonly ("name" | "mapping" | "properties")[];
  /** Whether it is given the token. */
  readonly token: boolean;
}

/** A token that is to be given to a group. */
interface GivenToken {
  readonly text: string;
  readonly digest: string;
  readonly isForeign: boolean;
}

/** Imports of user groups: each for itself, in as few round trips as all of a batch together. */
export class Imports {
  readonly #parts: ImportsParts;

  constructor(parts: ImportsParts) {
    this.#parts = parts;
  }

  /** Imports groups whose ids and tokens are not given twice; the outcomes are in their order. */
  async run(environment: Environment, groups: readonly ImportedUserGroup[], how: Import): Promise<ImportOutcome[]> {
    const outcomes: ImportOutcome[] = [];
    for (let start = 0; start < groups.length; start += AT_ONCE) {
      const batch = groups.slice(start, start + AT_ONCE);
      const settled = await Promise.allSettled(batch.map((group) => this.#import(environment, group, how)));
      outcomes.push(...settled.map(outcomeOf));
      const isAway = settled.every((each) => each.status === "rejected" && each.reason instanceof StoreUnavailable);
      // Each batch would wait for as long as this one did.
      if (isAway) break;
    }
    while (outcomes.length < groups.length) {
      outcomes.push({ outcome: "failed", error: new StoreUnavailable(new Error("import: given up"), "not_made") });
    }
    return outcomes;
  }

  /** @throws DomainError */
  async #import(environment: Environment, group: ImportedUserGroup, how: Import): Promise<ImportOutcome> {
    const token = givenToken(environment, group);
    const claim: Claim = { isAsked: false, ended: undefined };
    try {
      return await this.#try(environment, { group, token, claim }, how);
    } catch (error) {
      this.#releaseClaim(environment, { group, token, claim });
      throw error;
    }
  }

  /** Releases a claim that may have been made and was not used. It does nothing when the group has the token. */
  #releaseClaim(environment: Environment, { group, token, claim }: Trying): void {
    if (token === undefined || !claim.isAsked) return;
    // The group may have had it, and its retried rotation may need a hint.
    const release = { id: group.providedId, keepMs: REQUEST_TTL_MS };
    this.#parts.foreignTokens.releaseLater(environment, token.digest, release);
  }

  async #try(environment: Environment, { group, token, claim }: Trying, how: Import): Promise<ImportOutcome> {
    const key = groupKeyOf(environment, group.providedId);
    for (let tries = 0; tries < TRIES; tries++) {
      const record = await this.#parts.client.run("import-read", "hgetall", [key], "not_made");
      const plan = planOf(record, group, token);
      // Another import gave the group this token since it was claimed here, and it may have been replaced again.
      if (!plan.token) this.#releaseClaim(environment, { group, token, claim });
      const isThere = !isEmpty(record);
      if (isThere && plan.fields.length === 0 && !plan.token) {
        await this.#mendEntry(environment, group, record, token);
        return { outcome: "unchanged" };
      }
      if (isThere && how.mode === "create-only") throw new UserGroupExists();
      const given = plan.token ? (token ?? ownToken(environment, group)) : undefined;
      const done = await this.#write(environment, { group, record, plan, given, claim }, how);
      if (done !== undefined) return done;
    }
    throw new StoreUnavailable(new Error("import: others change the group all the time"), "not_made");
  }

  /** The entry of a foreign token that the group has may be lost, and nobody would find the group by it. */
  async #mendEntry(environment: Environment, group: ImportedUserGroup, record: StoredRecord, token?: GivenToken) {
    if (token?.isForeign !== true || record[FIELD.digest] !== token.digest) return;
    await this.#parts.foreignTokens.mend(environment, token.digest, group.providedId);
  }

  /** Claims the token, then writes the group; undefined when that is to be done again. */
  async #write(environment: Environment, what: Writing, how: Import): Promise<ImportOutcome | undefined> {
    const { group, given, claim } = what;
    if (given?.isForeign !== true) return this.#send(environment, { ...what, nonce: "", sendBy: undefined }, how);
    const sendBy = performance.now() + CLAIM_MS;
    claim.isAsked = true;
    const nonce = await this.#parts.foreignTokens.claim(environment, given.digest, group.providedId, claim.ended);
    return this.#send(environment, { ...what, nonce, sendBy }, how);
  }

  async #send(environment: Environment, what: Sending, how: Import): Promise<ImportOutcome | undefined> {
    const { client, audit, foreignTokens } = this.#parts;
    const { group, record, nonce } = what;
    const partition = partitionOf(environment, group.providedId);
    const key = groupKeyOf(environment, group.providedId);
    const { first, step, count } = teamIdsOf(environment, partition);
    const args = [
      key,
      isEmpty(record) ? "" : updateTimeFromRecord(record),
      ...[partitionPrefix(environment, partition), group.providedId, what.given?.digest ?? "", nonce],
      ...[String(first), String(step), String(count)],
      ...this.#fieldsOf(environment, what),
      ...audit.ofPartition(environment, partition, how.by),
    ] as const;
    const [state, , foreign = ""] = await client.change("import", "ugImport", args, what.sendBy);
    switch (state) {
      case "created":
        return { outcome: "created" };
      case "done":
        if (foreign !== "") foreignTokens.releaseLater(environment, foreign);
        return { outcome: "updated" };
      case "changed":
        return undefined;
      case "ended":
        what.claim.ended = nonce;
        return undefined;
      case "taken":
        throw new TokenTaken();
      case "full":
        throw new EnvironmentFull();
      default:
        throw new RecordUnreadable(new Error(`import: ${state}`));
    }
  }

  /** The names of what changes, what is replaced, and the fields to set with their values, as the script takes them. */
  #fieldsOf(environment: Environment, { group, plan, given }: Writing): string[] {
    const set: string[] = [];
    const replaced: string[] = [];
    const replace = (field: string, pieces: readonly string[]) => {
      set.push(...pieces);
      replaced.push(field, String(pieces.length / 2));
    };
    const json = (field: string, value: object | undefined) =>
      replace(field, value === undefined ? [] : piecesOf(field, JSON.stringify(value)));
    if (plan.fields.includes("name")) set.push(FIELD.name, group.name);
    if (plan.fields.includes("mapping")) json(PIECES.mapping, group.mapping);
    if (plan.fields.includes("properties")) json(PIECES.properties, group.properties);
    if (given !== undefined) {
      const encrypted = this.#parts.cipher.encrypt(environment, given.text, given.digest);
      const fields = tokenFields(encrypted);
      set.push(...fields);
      replaced.push(PIECES.foreignToken, String(encrypted.isPacked ? 0 : fields.length / 2 - 1));
      if (group.token !== undefined) set.push(FIELD.importedDigest, given.digest);
    }
    const names = [...plan.fields, ...(given === undefined ? [] : ["token"])];
    return [names.join(","), String(replaced.length / 2), ...replaced, ...set];
  }
}

/** What it takes to write a group. */
interface Writing {
  readonly group: ImportedUserGroup;
  /** As the group must still be. */
  readonly record: StoredRecord;
  readonly plan: Plan;
  /** The token that it gets; undefined: it keeps its own. */
  readonly given: GivenToken | undefined;
  readonly claim: Claim;
}

/** What is known of the claim of a foreign token. */
interface Claim {
  /** Whether it may have been made: one that failed may have been. */
  isAsked: boolean;
  /** The nonce of one that was ended; it needs another. */
  ended: string | undefined;
}

interface Trying {
  readonly group: ImportedUserGroup;
  readonly token: GivenToken | undefined;
  readonly claim: Claim;
}

interface Sending extends Writing {
  /** Of the claim of the token; empty when it needs none. */
  readonly nonce: string;
  /** The instant of `performance.now()` before which the claim has to be used; undefined: it needs none. */
  readonly sendBy: number | undefined;
}

function outcomeOf(settled: PromiseSettledResult<ImportOutcome>): ImportOutcome {
  if (settled.status === "fulfilled") return settled.value;
  const { reason } = settled as { reason: unknown };
  if (reason instanceof DomainError) return { outcome: "failed", error: reason };
  throw reason;
}

/**
 * What of a group is not as it is given. A token that has been replaced since stays dead: neither one that an import gave
 * the group before is given again, nor one of this service once the group has had more than its first.
 */
function planOf(record: StoredRecord, group: ImportedUserGroup, token: GivenToken | undefined): Plan {
  if (isEmpty(record)) {
    return { fields: group.properties ? ["name", "mapping", "properties"] : ["name", "mapping"], token: true };
  }
  const isKnown = [record[FIELD.digest], record[FIELD.importedDigest]].includes(token?.digest);
  const fields: Plan["fields"][number][] = [];
  if (record[FIELD.name] !== group.name) fields.push("name");
  if (!isSame(joinPieces(record, PIECES.mapping), group.mapping)) fields.push("mapping");
  if (!isSame(joinPieces(record, PIECES.properties), group.properties)) fields.push("properties");
  const mayBeDead = token?.isForeign === false && record[FIELD.tokenCreateTime] !== undefined;
  return { fields, token: token !== undefined && !isKnown && !mayBeDead };
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
function ownToken(environment: Environment, { providedId }: ImportedUserGroup): GivenToken {
  const text = newUserGroupToken(partitionOf(environment, providedId));
  return { text, digest: tokenDigest(text), isForeign: false };
}
