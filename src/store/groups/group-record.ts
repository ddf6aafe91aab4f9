import { isDeepStrictEqual } from "node:util";
import type { Environment } from "../../domain/environment.ts";
import { RecordUnreadable, TokenNotFound } from "../../domain/errors.ts";
import { isMalformedUserGroupToken } from "../../domain/token.ts";
import {
  EXPIRED,
  type GroupFields,
  type Json,
  type JsonObject,
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
import { inBatches, integerOf, optionalIntegerOf, type ReadRecord, type StoredRecord, textOf } from "../records.ts";

/**
 * A group that was read from Redis. `now` is the time by Redis' clock. If `needsClock` returned false, or if the slot
 * was migrating, `now` is the time by this worker's clock.
 */
export interface GroupAnswer extends ReadRecord {
  readonly providedId: string;
  /** Whether the presented token is a former token in its grace period. */
  readonly isPrevious?: boolean;
}

export interface GroupDeps {
  readonly client: StoreClient;
  readonly cipher: TokenCipher;
  readonly audit: Audit;
}

/**
 * The fields of a group's hash. The names have one letter to save memory. Times are milliseconds since 1970. Versions
 * are microseconds since 1970 (docs/decisions/0003-layout-in-redis.md).
 */
export const FIELD = {
  teamId: "g",
  name: "n",
  mapping: "m",
  /** Missing if the group has no properties. */
  properties: "p",
  /** Missing if the group does not expire. */
  expireTime: "e",
  /** The time of the suspension. Missing if the group was never suspended, or was resumed. */
  suspendTime: "z",
  suspensionReason: "w",
  suspensionMessage: "h",
  /** The end of the suspension. Missing if the suspension lasts until an operator resumes the group. */
  suspensionUntil: "v",
  /** The result of `tokenDigest` for the current token. */
  digest: "d",
  /** The id of the key in `TOKEN_KEYS` that encrypted the token. */
  keyId: "k",
  /**
   * The current token, packed and encrypted. Missing if the token has another format than the tokens of this service.
   */
  token: "t",
  /** The current token, encrypted but not packed. Missing if the token has the format of this service. */
  foreignToken: "f",
  createVersion: "c",
  /** The version of the last change. Missing if this version equals `createVersion`. */
  version: "u",
  /**
   * The creation time of the token. An imported token has the `snapshot_time` of its import. If the imported token
   * replaced a younger token, the field contains the creation time of the younger token. Missing if the group and the
   * token were created at the same time.
   */
  tokenCreateTime: "r",
  /** The digest of the last replaced token, even if its grace period has ended. Missing if it got no grace period. */
  graceDigest: "x",
  graceUntil: "y",
  /**
   * The generation that new viewer sessions get: the time of the last revocation. Missing before the first revocation.
   */
  generation: "s",
  /** The oldest valid generation of viewer sessions. Missing if all generations are valid. */
  firstGeneration: "b",
  /** The day of the last resolve, in days since 1970. Missing if the group was never resolved. */
  lastResolveDay: "l",
} as const;

export const TOKEN_FIELDS = [FIELD.keyId, FIELD.digest, FIELD.token, FIELD.foreignToken] as const;

/** @throws RecordUnreadable */
export function encryptedFromRecord(record: StoredRecord): EncryptedToken {
  const packed = record[FIELD.token];
  const text = packed ?? textOf(record, FIELD.foreignToken);
  return { keyId: textOf(record, FIELD.keyId), text, isPacked: packed !== undefined };
}

const STORED_AS: { readonly [field in keyof GroupFields]-?: "text" | "json" } = {
  name: "text",
  mapping: "json",
  properties: "json",
  expireTime: "text",
};

export const GROUP_FIELDS = Object.keys(STORED_AS) as (keyof GroupFields)[];

type GroupValue = GroupFields[keyof GroupFields];

function storedText(name: keyof GroupFields, value: GroupValue): string | undefined {
  if (value === undefined) return undefined;
  return STORED_AS[name] === "text" ? String(value) : JSON.stringify(value);
}

/** Returns whether a field has this value. The order of JSON keys does not matter. @throws RecordUnreadable */
export function hasValue(record: StoredRecord, name: keyof GroupFields, value: GroupValue): boolean {
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

const SUSPENSION_FIELDS = [
  FIELD.suspendTime,
  FIELD.suspensionReason,
  FIELD.suspensionMessage,
  FIELD.suspensionUntil,
] as const;

/** The maximum difference between the clocks of Redis and of a worker, in milliseconds. */
export const CLOCK_DIFFERENCE_MS = 60_000;

/**
 * Returns whether the expiry time or the end of the suspension is close to `now`. In this case, only Redis' clock can
 * decide whether the group is suspended.
 */
export function needsClock(record: StoredRecord, now: number): boolean {
  return isClose(record[FIELD.expireTime], now) || isClose(record[FIELD.suspensionUntil], now);
}

function isClose(time: string | undefined, now: number): boolean {
  return time !== undefined && Math.abs(Number(time) - now) < CLOCK_DIFFERENCE_MS;
}

/** Returns undefined if the group is not suspended. @param now see `GroupAnswer` @throws RecordUnreadable */
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
    token: cipher.decrypt(environment, encryptedFromRecord(record), textOf(record, FIELD.digest)),
    suspension: suspensionOf(record, now),
  };
}

/** Decodes a group for a viewer. @throws RecordUnreadable */
export function viewerFromRecord({ record, providedId, now, isPrevious }: GroupAnswer): Viewer {
  return {
    teamId: integerOf(record, FIELD.teamId),
    providedId,
    ...fieldsFromRecord(record),
    lastResolveDay: resolveDayOf(record),
    tokenExpireTime: isPrevious ? integerOf(record, FIELD.graceUntil) : undefined,
    suspension: suspensionOf(record, now),
  };
}

/** The first day of the year 10000, in days since 1970. The years of earlier dates have at most four digits. */
const MAX_DAY = 2_932_897;

/** Returns undefined if the day is missing or invalid. An invalid day must not make a resolve fail. */
function resolveDayOf(record: StoredRecord): number | undefined {
  const day = Number(record[FIELD.lastResolveDay]);
  return day > 0 && day < MAX_DAY ? day : undefined;
}

/** Returns a generation of viewer sessions, or 0 if the field is missing. @throws RecordUnreadable */
export function generationOf(record: StoredRecord, field: "generation" | "firstGeneration" = "generation"): number {
  return optionalIntegerOf(record, FIELD[field]) ?? 0;
}

/** Decodes a group without its token. @throws RecordUnreadable */
export function infoFromRecord(answer: GroupAnswer): UserGroupInfo {
  return { ...listedFromRecord(answer), ...fieldsFromRecord(answer.record) };
}

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

/** Decodes a group from its `LISTED_FIELDS`. @throws RecordUnreadable */
export function listedFromRecord({ record, providedId, now }: GroupAnswer): UserGroupInfo {
  const versions = versionsFromRecord(record);
  const { createTime, tokenCreateTime } = versions;
  const graceUntil = optionalIntegerOf(record, FIELD.graceUntil) ?? 0;
  return {
    providedId,
    ...versions,
    name: textOf(record, FIELD.name),
    // The first token of a group is as old as the group, or older. If a token is younger than its group, the token is a
    // replacement.
    lastRotationTime: tokenCreateTime > createTime ? tokenCreateTime : undefined,
    graceExpireTime: now < graceUntil ? graceUntil : undefined,
    hasForeignToken: record[FIELD.foreignToken] !== undefined,
    expireTime: optionalIntegerOf(record, FIELD.expireTime),
    suspension: suspensionOf(record, now),
    lastResolveDay: resolveDayOf(record),
  };
}

/** Returns the creation time of the token, in milliseconds since 1970. @throws RecordUnreadable */
export function tokenTimeOf(record: StoredRecord): number {
  return optionalIntegerOf(record, FIELD.tokenCreateTime) ?? msOf(integerOf(record, FIELD.createVersion));
}

/** Returns the version of the last change. Returns an empty text if the group does not exist. */
export function versionOf(record: StoredRecord): string {
  return record[FIELD.version] ?? record[FIELD.createVersion] ?? "";
}

export interface ChangedFields {
  /** The names that the changed fields have in the proto files. */
  readonly names: string[];
  /** The hash fields to set: the name of each field, followed by its value. */
  readonly set: string[];
  readonly removed: string[];
}

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

/** Returns the hash fields that store a token: the name of each field, followed by its value. */
export function tokenFields({ keyId, text, isPacked }: EncryptedToken): string[] {
  return [FIELD.keyId, keyId, isPacked ? FIELD.token : FIELD.foreignToken, text];
}

export function setToken({ set, removed }: ChangedFields, token: EncryptedToken): void {
  set.push(...tokenFields(token));
  removed.push(token.isPacked ? FIELD.foreignToken : FIELD.token);
}

export function changeArgs({ names, set, removed }: ChangedFields) {
  return { changedFields: names.join(","), removed: removed.join(""), extraArgs: set };
}

/**
 * Returns the etag of a group. If a group is created again under the same id, its etag differs, because each creation
 * assigns a new team id. Scripts format etags as well, and must use the same form.
 */
export function etagOf(teamId: number, version: number | string): string {
  return `${teamId}-${version}`;
}

export function msOf(version: number): number {
  return Math.floor(version / 1000);
}

/** Returns the digest of a presented token. @throws TokenNotFound if the token is malformed */
export function digestOf(token: string): string {
  if (isMalformedUserGroupToken(token)) throw new TokenNotFound(true);
  return tokenDigest(token);
}

/** Returns the arguments for `parts/target.lua`. @throws TokenNotFound if the token of the target is malformed */
export function targetArgs(target: UserGroupTarget) {
  if (target.by === "id") return { id: target.providedId, currentDigest: "" };
  return { id: "", currentDigest: digestOf(target.token) };
}

interface RecordReading {
  readonly operation: string;
  readonly atOnce: number;
  readonly fields?: readonly string[];
}

/** Reads the records of groups in the order of the ids. The record of a missing group is empty. */
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

function jsonOf(field: string, source: string): JsonObject {
  let value: Json;
  try {
    value = JSON.parse(source) as Json;
  } catch (cause) {
    throw new RecordUnreadable(cause);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new RecordUnreadable(new Error(`the field ${field} of a record is not a JSON object`));
  }
  return value;
}
