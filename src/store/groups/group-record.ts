import { isDeepStrictEqual } from "node:util";
import type { Environment } from "../../domain/environment.ts";
import { RecordUnreadable, TokenNotFound } from "../../domain/errors.ts";
import { isMalformedUserGroupToken } from "../../domain/token.ts";
import {
  EXPIRED,
  type GroupFields,
  type Json,
  type JsonObject,
  type ListedUserGroup,
  type Suspension,
  type UserGroup,
  type UserGroupChange,
  type UserGroupInfo,
  type UserGroupTarget,
  type Viewer,
} from "../../domain/user-group.ts";
import type { Audit } from "../audit.ts";
import type { StoreClient } from "../connection/client.ts";
import { type EncryptedToken, type TokenCipher, tokenDigest } from "../encryption.ts";
import { groupKey } from "../keys.ts";
import { inBatches, integerOf, optionalIntegerOf, type StoredRecord, textOf } from "../records.ts";

/** An answer with the record of a group. */
export interface GroupAnswer {
  readonly record: StoredRecord;
  readonly providedId: string;
  /** Redis' clock, in milliseconds since 1970, or that of this worker if it suffices (`needsClock`). */
  readonly now: number;
}

/** Dependencies of the stores of user groups. */
export interface GroupDeps {
  readonly client: StoreClient;
  readonly cipher: TokenCipher;
  readonly audit: Audit;
}

/**
 * Fields of a group's hash. Their names have one letter to save memory. Versions are versions of the environment: microseconds
 * since 1970 by Redis' clock, or later if the clock was set back. Times are milliseconds.
 */
export const FIELD = {
  teamId: "g",
  name: "n",
  /** JSON. */
  mapping: "m",
  /** JSON. Missing if the group has none. */
  properties: "p",
  /** Missing if the group does not expire. */
  expireTime: "e",
  /** Time of the suspension. Missing if the group was never suspended, or was resumed. */
  suspendTime: "z",
  suspensionReason: "w",
  suspensionMessage: "h",
  /** Missing if the suspension does not end by itself. */
  suspensionUntil: "v",
  /** Digest of the current token (`tokenDigest`). */
  digest: "d",
  /** Id of the key in `TOKEN_KEYS` that encrypted the token. */
  keyId: "k",
  /** The current token, packed and encrypted, if it has the format of this service. */
  token: "t",
  /** The current token, encrypted, if it has another format. */
  foreignToken: "f",
  /** Version of the creation. */
  createVersion: "c",
  /** Version of the last change. Missing if it is `createVersion`. */
  version: "u",
  /** Missing if it is the creation time. For an imported token, the snapshot time of the import, which may be earlier. */
  tokenCreateTime: "r",
  /** Digest of the last token with a grace period, which may be over. */
  graceDigest: "x",
  graceUntil: "y",
  /** Generation of new viewer sessions: the time of the last revocation of sessions. Missing if there was no revocation. */
  generation: "s",
  /** Oldest valid generation of viewer sessions. Missing if all are valid. */
  firstGeneration: "b",
  /** Day of the last resolve, counted from 1970. Missing if the group was never resolved. */
  lastResolveDay: "l",
} as const;

/** The fields of a record that hold its token. */
export const TOKEN_FIELDS = [FIELD.keyId, FIELD.digest, FIELD.token, FIELD.foreignToken] as const;

/** The encrypted token of a record. @throws RecordUnreadable */
export function encryptedFromRecord(record: StoredRecord): EncryptedToken {
  const packed = record[FIELD.token];
  const text = packed ?? textOf(record, FIELD.foreignToken);
  return { keyId: textOf(record, FIELD.keyId), text, isPacked: packed !== undefined };
}

/** Encoding of the fields that callers set. */
const STORED_AS: { readonly [field in keyof GroupFields]-?: "text" | "json" } = {
  name: "text",
  mapping: "json",
  properties: "json",
  expireTime: "text",
};

/** The fields that callers set. */
export const GROUP_FIELDS = Object.keys(STORED_AS) as (keyof GroupFields)[];

/** The encoded value of a field that callers set. */
function storedText<Name extends keyof GroupFields>(name: Name, value: GroupFields[Name]): string | undefined {
  if (value === undefined) return undefined;
  return STORED_AS[name] === "text" ? String(value) : JSON.stringify(value);
}

/** Whether a record has a value. The order of JSON keys does not matter. @throws RecordUnreadable */
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

function fieldsFromRecord(record: StoredRecord): GroupFields {
  const properties = record[FIELD.properties];
  return {
    name: textOf(record, FIELD.name),
    mapping: jsonOf(FIELD.mapping, textOf(record, FIELD.mapping)) as GroupFields["mapping"],
    properties: properties === undefined ? undefined : jsonOf(FIELD.properties, properties),
    expireTime: optionalIntegerOf(record, FIELD.expireTime),
  };
}

/** The fields of a suspension. */
const SUSPENSION_FIELDS = [
  FIELD.suspendTime,
  FIELD.suspensionReason,
  FIELD.suspensionMessage,
  FIELD.suspensionUntil,
] as const;

/** Maximum difference between the clocks of Redis and of a worker, in milliseconds. */
export const CLOCK_DIFFERENCE_MS = 60_000;

/**
 * Whether only Redis' clock decides if the group is suspended, because the record has a time that is close to `now`.
 *
 * @param now the clock of this worker, in milliseconds since 1970
 */
export function needsClock(record: StoredRecord, now: number): boolean {
  return isClose(record[FIELD.expireTime], now) || isClose(record[FIELD.suspensionUntil], now);
}

function isClose(time: string | undefined, now: number): boolean {
  return time !== undefined && Math.abs(Number(time) - now) < CLOCK_DIFFERENCE_MS;
}

/**
 * The suspension of a group.
 *
 * @param now Redis' clock, or that of this worker if it suffices (`needsClock`)
 * @returns undefined if the group is not suspended
 * @throws RecordUnreadable
 */
export function suspensionOf(record: StoredRecord, now: number): Suspension | undefined {
  const suspendTime = optionalIntegerOf(record, FIELD.suspendTime);
  const until = optionalIntegerOf(record, FIELD.suspensionUntil);
  if (suspendTime !== undefined && (until === undefined || now < until)) {
    const reason = textOf(record, FIELD.suspensionReason);
    return { reason, message: textOf(record, FIELD.suspensionMessage), suspendTime, until };
  }
  const expireTime = optionalIntegerOf(record, FIELD.expireTime);
  if (expireTime === undefined || now < expireTime) return undefined;
  return { reason: EXPIRED, message: "", suspendTime: expireTime, until: undefined };
}

/** Adds a suspension to a change. */
export function setSuspension({ names, set, removed }: ChangedFields, suspension: Suspension): void {
  const { reason, message, suspendTime, until } = suspension;
  names.push("suspension");
  const values = [suspendTime, reason, message, until];
  for (const [i, field] of SUSPENSION_FIELDS.entries()) {
    if (values[i] === undefined) removed.push(field);
    else set.push(field, String(values[i]));
  }
}

function versionsFromRecord(record: StoredRecord) {
  const teamId = integerOf(record, FIELD.teamId);
  const created = integerOf(record, FIELD.createVersion);
  const version = optionalIntegerOf(record, FIELD.version) ?? created;
  const etag = etagOf(teamId, version);
  return { teamId, etag, createTime: msOf(created), updateTime: msOf(version), tokenCreateTime: tokenTimeOf(record) };
}

/** Decodes a group with its token. @throws RecordUnreadable */
export function groupFromRecord(
  { record, providedId, now }: GroupAnswer,
  environment: Environment,
  cipher: TokenCipher,
): UserGroup {
  return {
    providedId,
    ...versionsFromRecord(record),
    ...fieldsFromRecord(record),
    environmentTag: environment.tag,
    token: cipher.decrypt(environment, encryptedFromRecord(record), textOf(record, FIELD.digest)),
    suspension: suspensionOf(record, now),
  };
}

/**
 * Decodes a group for the bearer of its token.
 *
 * @param isPrevious whether the token is in its grace period
 * @throws RecordUnreadable
 */
export function viewerFromRecord(
  { record, providedId, now }: GroupAnswer,
  environment: Environment,
  isPrevious = false,
): Viewer {
  return {
    teamId: integerOf(record, FIELD.teamId),
    providedId,
    ...fieldsFromRecord(record),
    environmentTag: environment.tag,
    lastResolveDay: resolveDayOf(record),
    tokenExpireTime: isPrevious ? integerOf(record, FIELD.graceUntil) : undefined,
    suspension: suspensionOf(record, now),
  };
}

/** The first day of the year 10000, counted from 1970. Earlier dates have a year of at most four digits. */
const MAX_DAY = 2_932_897;

/** Day of the last resolve. An invalid day counts as unset, because it must not prevent a resolve. */
function resolveDayOf(record: StoredRecord): number | undefined {
  const day = Number(record[FIELD.lastResolveDay]);
  return day > 0 && day < MAX_DAY ? day : undefined;
}

/** The current generation of viewer sessions, or the oldest valid one. @throws RecordUnreadable */
export function generationOf(record: StoredRecord, field: "generation" | "firstGeneration" = "generation"): number {
  return optionalIntegerOf(record, FIELD[field]) ?? 0;
}

/** Decodes a group without its token. @throws RecordUnreadable */
export function infoFromRecord(answer: GroupAnswer): UserGroupInfo {
  return { ...listedFromRecord(answer), ...fieldsFromRecord(answer.record) };
}

/** Fields that lists read. */
export const LISTED_FIELDS = [
  FIELD.teamId,
  FIELD.name,
  FIELD.createVersion,
  FIELD.version,
  FIELD.tokenCreateTime,
  FIELD.graceUntil,
  FIELD.foreignToken,
  FIELD.expireTime,
  FIELD.lastResolveDay,
  ...SUSPENSION_FIELDS,
] as const;

/** Decodes a group for a list, from its `LISTED_FIELDS`. @throws RecordUnreadable */
export function listedFromRecord({ record, providedId, now }: GroupAnswer): ListedUserGroup {
  const versions = versionsFromRecord(record);
  const { createTime, tokenCreateTime } = versions;
  const graceUntil = optionalIntegerOf(record, FIELD.graceUntil) ?? 0;
  return {
    providedId,
    ...versions,
    name: textOf(record, FIELD.name),
    // The token of a new group has its creation time, or an earlier snapshot time.
    lastRotationTime: tokenCreateTime > createTime ? tokenCreateTime : undefined,
    graceExpireTime: now < graceUntil ? graceUntil : undefined,
    hasForeignToken: record[FIELD.foreignToken] !== undefined,
    expireTime: optionalIntegerOf(record, FIELD.expireTime),
    suspension: suspensionOf(record, now),
    lastResolveDay: resolveDayOf(record),
  };
}

/** Creation time of the token, in milliseconds since 1970. @throws RecordUnreadable */
export function tokenTimeOf(record: StoredRecord): number {
  return optionalIntegerOf(record, FIELD.tokenCreateTime) ?? msOf(integerOf(record, FIELD.createVersion));
}

/** Version of the last change; empty if the group does not exist. */
export function versionOf(record: StoredRecord): string {
  return record[FIELD.version] ?? record[FIELD.createVersion] ?? "";
}

/** Changed fields: their names in the proto files, and the fields of the hash to set (field, value, …) and to remove. */
export interface ChangedFields {
  readonly names: string[];
  readonly set: string[];
  readonly removed: string[];
}

/** Encodes a change. */
export function changedFields(change: UserGroupChange): ChangedFields {
  const fields: ChangedFields = { names: [], set: [], removed: [] };
  for (const name of GROUP_FIELDS) {
    if (change[name] === undefined) continue;
    fields.names.push(name.replace(/[A-Z]/, (letter) => `_${letter.toLowerCase()}`));
    const text = storedText(name, change[name] ?? undefined);
    if (text === undefined) fields.removed.push(FIELD[name]);
    else fields.set.push(FIELD[name], text);
  }
  return fields;
}

/** The fields of the hash that store a token: field, value, … */
export function tokenFields({ keyId, text, isPacked }: EncryptedToken): string[] {
  return [FIELD.keyId, keyId, isPacked ? FIELD.token : FIELD.foreignToken, text];
}

/** Adds a token to a change. */
export function setToken({ set, removed }: ChangedFields, token: EncryptedToken): void {
  set.push(...tokenFields(token));
  removed.push(token.isPacked ? FIELD.foreignToken : FIELD.token);
}

/** The arguments of a script for changed fields. */
export function changeArgs({ names, set, removed }: ChangedFields) {
  return { changedFields: names.join(","), removed: removed.join(""), extraArgs: set };
}

/**
 * The etag of a group. Versions increase and team ids are unique, so no later group of the same id has an earlier etag. Scripts
 * format etags in the same way.
 */
export function etagOf(teamId: number, version: number | string): string {
  return `${teamId}-${version}`;
}

/** Converts a version to milliseconds since 1970. */
export function msOf(version: number): number {
  return Math.floor(version / 1000);
}

/** The digest of a presented token. @throws TokenNotFound if the token is malformed */
export function digestOf(token: string): string {
  if (isMalformedUserGroupToken(token)) throw new TokenNotFound(true);
  return tokenDigest(token);
}

/** The arguments for scripts that find a target. @throws TokenNotFound if its token is malformed */
export function targetArgs(target: UserGroupTarget) {
  if (target.by === "id") return { id: target.providedId, currentDigest: "" };
  return { id: "", currentDigest: digestOf(target.token) };
}

interface RecordReading {
  /** Name in metrics. */
  readonly operation: string;
  /** Number of concurrent reads. This number is bounded because Redis serves other callers, too. */
  readonly atOnce: number;
  /** Default: all. */
  readonly fields?: readonly string[];
}

/** Reads the records of groups in the order of their ids. The record of a missing group is empty. */
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

/** Parses the JSON object of a field. @throws RecordUnreadable */
function jsonOf(field: string, source: string): JsonObject {
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
