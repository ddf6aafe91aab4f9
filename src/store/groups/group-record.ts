import { isDeepStrictEqual } from "node:util";
import type { Environment } from "../../domain/environment.ts";
import { RecordUnreadable, TokenNotFound } from "../../domain/errors.ts";
import { isMalformedUserGroupToken } from "../../domain/token.ts";
import type {
  GroupFields,
  Json,
  JsonObject,
  ListedUserGroup,
  UserGroup,
  UserGroupChange,
  UserGroupInfo,
  UserGroupTarget,
  Viewer,
} from "../../domain/user-group.ts";
import type { Audit } from "../audit.ts";
import type { StoreClient } from "../connection/client.ts";
import { type EncryptedToken, type TokenCipher, tokenDigest } from "../encryption.ts";
import { groupKey, tokensKey } from "../keys.ts";
import { inBatches, integerOf, optionalIntegerOf, type StoredRecord, textOf } from "../records.ts";

/** What user groups are read and changed with. */
export interface GroupDeps {
  readonly client: StoreClient;
  readonly cipher: TokenCipher;
  readonly audit: Audit;
}

/**
 * Names of the fields of a group's hash. They are one letter long because every group holds them. Numbers are decimal. Versions
 * are those of the environment: microseconds since 1970 by Redis' clock, unless it was set back. Other times are in milliseconds.
 */
export const FIELD = {
  teamId: "g",
  name: "n",
  /** JSON text. */
  mapping: "m",
  /** JSON text; missing: there are none. */
  properties: "p",
  /** Digest of the current token (`tokenDigest`). */
  digest: "d",
  /** Id of the key in `TOKEN_KEYS` that the token is encrypted under. */
  keyId: "k",
  /** The current token, packed and encrypted, when it has the shape of ours. */
  token: "t",
  /** The current token, encrypted whole, when it is of another shape than ours. */
  foreignToken: "f",
  /** The version of its creation. */
  createVersion: "c",
  /** The version of its last change. Missing: the same as `createVersion`. */
  version: "u",
  /** Missing: when it was created. An imported token has the snapshot time of its import, which may be earlier. */
  tokenCreateTime: "r",
  /** Digest of the token that is in its grace period, or was. */
  graceDigest: "x",
  graceUntil: "y",
  /** The generation of new viewer sessions: the time when sessions of the group were last revoked. Missing: never. */
  generation: "s",
  /** The oldest generation of viewer sessions that is still valid; missing: all are. */
  firstGeneration: "b",
} as const;

/** The fields of a record that hold its token. */
export const TOKEN_FIELDS = [FIELD.keyId, FIELD.digest, FIELD.token, FIELD.foreignToken] as const;

/** The token of a record as it is stored. @throws RecordUnreadable */
export function encryptedFromRecord(record: StoredRecord): EncryptedToken {
  const packed = record[FIELD.token];
  const text = packed ?? textOf(record, FIELD.foreignToken);
  return { keyId: textOf(record, FIELD.keyId), text, isPacked: packed !== undefined };
}

/** How the fields that callers set are stored: as they are, or as JSON. */
const STORED_AS: { readonly [field in keyof GroupFields]-?: "text" | "json" } = {
  name: "text",
  mapping: "json",
  properties: "json",
};

/** The fields that callers set. */
export const GROUP_FIELDS = Object.keys(STORED_AS) as (keyof GroupFields)[];

/** A value of such a field as it is stored; undefined: it is unset. */
function storedText<Name extends keyof GroupFields>(name: Name, value: GroupFields[Name]): string | undefined {
  if (value === undefined) return undefined;
  return STORED_AS[name] === "text" ? String(value) : JSON.stringify(value);
}

/** Whether a record has a value, in whatever order the keys of its JSON are. @throws RecordUnreadable */
export function hasValue<Name extends keyof GroupFields>(
  record: StoredRecord,
  name: Name,
  value: GroupFields[Name],
): boolean {
  const [stored, wanted] = [record[FIELD[name]], storedText(name, value)];
  if (stored === wanted) return true;
  if (STORED_AS[name] === "text" || stored === undefined || wanted === undefined) return false;
  try {
    return isDeepStrictEqual(JSON.parse(stored), JSON.parse(wanted));
  } catch (cause) {
    throw new RecordUnreadable(cause);
  }
}

/** The fields of a record that callers set. @throws RecordUnreadable */
function fieldsFromRecord(record: StoredRecord): GroupFields {
  return {
    name: textOf(record, FIELD.name),
    mapping: jsonOf(record, FIELD.mapping) as GroupFields["mapping"],
    properties: jsonOf(record, FIELD.properties),
  };
}

/** The team id, the etag and the times of a record. @throws RecordUnreadable */
function versionsFromRecord(record: StoredRecord) {
  const teamId = integerOf(record, FIELD.teamId);
  const created = integerOf(record, FIELD.createVersion);
  const version = optionalIntegerOf(record, FIELD.version) ?? created;
  const etag = etagOf(teamId, version);
  return { teamId, etag, createTime: msOf(created), updateTime: msOf(version), tokenCreateTime: tokenTimeOf(record) };
}

/** The group that a record holds. @throws RecordUnreadable */
export function groupFromRecord(
  record: StoredRecord,
  environment: Environment,
  cipher: TokenCipher,
  providedId: string,
): UserGroup {
  return {
    providedId,
    ...versionsFromRecord(record),
    ...fieldsFromRecord(record),
    environmentTag: environment.tag,
    token: cipher.decrypt(environment, encryptedFromRecord(record), textOf(record, FIELD.digest)),
  };
}

/**
 * The viewer that a record shows to the bearer of its token.
 *
 * @param isGraced whether the token is the one in its grace period, not the current one
 * @throws RecordUnreadable
 */
export function viewerFromRecord(
  record: StoredRecord,
  environment: Environment,
  { providedId, isGraced = false }: { readonly providedId: string; readonly isGraced?: boolean },
): Viewer {
  return {
    teamId: integerOf(record, FIELD.teamId),
    providedId,
    ...fieldsFromRecord(record),
    environmentTag: environment.tag,
    tokenExpireTime: isGraced ? integerOf(record, FIELD.graceUntil) : undefined,
  };
}

/** The generation that viewer sessions of a group are of now, or the first that is not revoked. @throws RecordUnreadable */
export function generationOf(record: StoredRecord, field: "generation" | "firstGeneration" = "generation"): number {
  return optionalIntegerOf(record, FIELD[field]) ?? 0;
}

/** What operators may see of a group. @param now Redis' clock. @throws RecordUnreadable */
export function infoFromRecord(record: StoredRecord, providedId: string, now: number): UserGroupInfo {
  return { ...listedFromRecord(record, providedId, now), ...fieldsFromRecord(record) };
}

/** The fields of a group's record that a list shows. */
export const LISTED_FIELDS = [
  FIELD.teamId,
  FIELD.name,
  FIELD.createVersion,
  FIELD.version,
  FIELD.tokenCreateTime,
  FIELD.graceUntil,
  FIELD.foreignToken,
] as const;

/** What a list tells of a group, from its `LISTED_FIELDS` at the least. @param now Redis' clock. @throws RecordUnreadable */
export function listedFromRecord(record: StoredRecord, providedId: string, now: number): ListedUserGroup {
  const versions = versionsFromRecord(record);
  const { createTime, tokenCreateTime } = versions;
  const graceUntil = optionalIntegerOf(record, FIELD.graceUntil) ?? 0;
  return {
    providedId,
    ...versions,
    name: textOf(record, FIELD.name),
    // An imported token may be older than the group.
    lastRotationTime: tokenCreateTime > createTime ? tokenCreateTime : undefined,
    graceExpireTime: now < graceUntil ? graceUntil : undefined,
    hasForeignToken: record[FIELD.foreignToken] !== undefined,
  };
}

/** Since when a group has its token, in milliseconds since 1970. @throws RecordUnreadable */
export function tokenTimeOf(record: StoredRecord): number {
  return optionalIntegerOf(record, FIELD.tokenCreateTime) ?? msOf(integerOf(record, FIELD.createVersion));
}

/** The version of a group's last change; empty: there is no group. */
export function versionOf(record: StoredRecord): string {
  return record[FIELD.version] ?? record[FIELD.createVersion] ?? "";
}

/** Names of changed fields; fields of the hash to set, with their values; and those to remove. */
export interface ChangedFields {
  readonly names: string[];
  readonly set: string[];
  readonly removed: string[];
}

/** The fields of the hash that a change sets. */
export function changedFields(change: UserGroupChange): ChangedFields {
  const fields: ChangedFields = { names: [], set: [], removed: [] };
  for (const name of GROUP_FIELDS) {
    if (change[name] === undefined) continue;
    fields.names.push(name);
    const text = storedText(name, change[name] ?? undefined);
    if (text === undefined) fields.removed.push(FIELD[name]);
    else fields.set.push(FIELD[name], text);
  }
  return fields;
}

/** Adds the fields of a token to those of a change. */
export function setToken({ set, removed }: ChangedFields, { keyId, text, isPacked }: EncryptedToken): void {
  set.push(FIELD.keyId, keyId, isPacked ? FIELD.token : FIELD.foreignToken, text);
  removed.push(isPacked ? FIELD.foreignToken : FIELD.token);
}

/** Changed fields as the arguments of a script. */
export function changeArgs({ names, set, removed }: ChangedFields) {
  return { changedFields: names.join(","), removed: removed.join(""), extraArgs: set };
}

/**
 * The etag of a group. Versions rise in an environment, and team ids are given once, so that no group has an etag that another
 * one of its id had. Scripts compare it as a text.
 */
export function etagOf(teamId: number, version: number | string): string {
  return `${teamId}-${version}`;
}

/** The time of a version, in milliseconds since 1970. */
export function msOf(version: number): number {
  return Math.floor(version / 1000);
}

/** The digest of a token that is looked for. @throws TokenNotFound when no group can have it */
export function digestOf(token: string): string {
  if (isMalformedUserGroupToken(token)) throw new TokenNotFound(true);
  return tokenDigest(token);
}

/** How scripts find the group of a target: by its id, or by the digest `old` that its token must have. @throws TokenNotFound */
export function targetArgs(number: number, target: UserGroupTarget) {
  if (target.by === "id") return { target: groupKey(number, target.providedId), id: target.providedId, old: "" };
  const old = digestOf(target.token);
  return { target: tokensKey(number, old), id: "", old };
}

/** How records of groups are read. */
interface RecordReading {
  /** The name of the operation, for metrics. */
  readonly operation: string;
  /** How many records are read at once, so that a long page does not keep Redis from its other callers. */
  readonly atOnce: number;
  /** The fields to read; default: all. */
  readonly fields?: readonly string[];
}

/** Reads the records of groups, in the order of the ids. The record of a missing group is empty. */
export async function* recordsOf(
  client: StoreClient,
  { number }: Environment,
  ids: readonly string[],
  { operation, atOnce, fields }: RecordReading,
): AsyncGenerator<readonly [id: string, record: StoredRecord]> {
  const read = async (id: string): Promise<readonly [string, StoredRecord]> => {
    const key = groupKey(number, id);
    if (fields === undefined) return [id, await client.run(operation, "hgetall", [key])];
    const values = await client.run(operation, "hmget", [key, ...fields]);
    const record: StoredRecord = {};
    for (const [i, field] of fields.entries()) if (typeof values[i] === "string") record[field] = values[i];
    return [id, record];
  };
  for await (const batch of inBatches(ids, atOnce, read)) yield* batch;
}

/** The JSON object of a field; undefined when it is missing, as only properties may be. @throws RecordUnreadable */
function jsonOf(record: StoredRecord, field: string): JsonObject | undefined {
  const source = record[field];
  if (source === undefined) {
    if (field === FIELD.properties) return undefined;
    throw new RecordUnreadable(new Error(`a record has no ${field}`));
  }
  let value: Json;
  try {
    value = JSON.parse(source) as Json;
  } catch (cause) {
    throw new RecordUnreadable(cause);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new RecordUnreadable(new Error(`a record's ${field} is not a JSON object`));
  }
  return value;
}
