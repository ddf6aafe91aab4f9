import type { Environment } from "../domain/environment.ts";
import { RecordUnreadable } from "../domain/errors.ts";
import type { Json, JsonObject, UserGroup, Viewer } from "../domain/user-group.ts";
import type { ListedUserGroup, UserGroupInfo } from "../domain/user-group-admin.ts";
import type { EncryptedToken, TokenCipher } from "./encryption.ts";
import { FIELD, joinPieces, PIECES, piecesOf } from "./fields.ts";
import { FOREIGN, LISTED_FIELDS } from "./group-list-scripts.ts";

/**
 * A group as its hash holds it, by the names of `fields.ts`. It names the
 * digests of its current token and of the one that is on its grace, and no
 * index is believed against it.
 */
export type GroupRecord = Record<string, string | undefined>;

/** The record that a script answered with: fields and values in turn, behind two values of its own. */
export function recordFromAnswer(answer: readonly string[]): GroupRecord {
  const record: GroupRecord = {};
  for (let i = 2; i + 1 < answer.length; i += 2) record[answer[i] as string] = answer[i + 1];
  return record;
}

/**
 * The group that a record holds.
 *
 * @param providedId of the group; the default is for answers of scripts, which hold it
 * @throws RecordUnreadable
 */
export function groupFromRecord(
  record: GroupRecord,
  environment: Environment,
  cipher: TokenCipher,
  providedId = text(record, FIELD.providedId),
): UserGroup {
  const createTime = integer(record, FIELD.createTime);
  const updateTime = integer(record, FIELD.updateTime, createTime);
  return {
    teamId: integer(record, FIELD.teamId),
    name: text(record, FIELD.name),
    providedId,
    mapping: json(record, PIECES.mapping) as { [schemaId: string]: string },
    properties: properties(record),
    environmentTag: environment.tag,
    token: cipher.decrypt(environment, encryptedToken(record), text(record, FIELD.digest)),
    etag: etagOf(updateTime),
    createTime,
    updateTime,
    tokenCreateTime: integer(record, FIELD.tokenCreateTime, createTime),
  };
}

/**
 * The viewer that a script's answer shows to the bearer of its token.
 *
 * @param graced whether the token is the one on its grace, not the current one
 * @throws RecordUnreadable
 */
export function viewerFromRecord(record: GroupRecord, environment: Environment, graced: boolean): Viewer {
  return {
    teamId: integer(record, FIELD.teamId),
    name: text(record, FIELD.name),
    providedId: text(record, FIELD.providedId),
    mapping: json(record, PIECES.mapping) as { [schemaId: string]: string },
    properties: properties(record),
    environmentTag: environment.tag,
    tokenExpireTime: graced ? integer(record, FIELD.graceUntil) : undefined,
  };
}

/**
 * What a list tells of a group.
 *
 * @param values of `LISTED_FIELDS`, empty where they are missing, and whether its token is foreign
 * @param now Redis' clock
 * @throws RecordUnreadable
 */
export function listedFromFields(providedId: string, values: readonly string[], now: number): ListedUserGroup {
  const record: GroupRecord = {};
  for (const [i, field] of LISTED_FIELDS.entries()) {
    const value = values[i];
    // A name may be empty.
    if (value !== "" || field === FIELD.name) record[field] = value;
  }
  return listed(record, { providedId, now, hasForeignToken: values[LISTED_FIELDS.length] === "1" });
}

/** What operators may see of a group. @param now Redis' clock. @throws RecordUnreadable */
export function infoFromRecord(record: GroupRecord, providedId: string, now: number): UserGroupInfo {
  return {
    ...listed(record, { providedId, now, hasForeignToken: record[FOREIGN] !== undefined }),
    mapping: json(record, PIECES.mapping) as { [schemaId: string]: string },
    properties: properties(record),
  };
}

function listed(
  record: GroupRecord,
  { providedId, now, hasForeignToken }: { providedId: string; now: number; hasForeignToken: boolean },
): ListedUserGroup {
  const createTime = integer(record, FIELD.createTime);
  const updateTime = integer(record, FIELD.updateTime, createTime);
  const tokenCreateTime = integer(record, FIELD.tokenCreateTime, createTime);
  const graceUntil = integer(record, FIELD.graceUntil, 0);
  return {
    teamId: integer(record, FIELD.teamId),
    providedId,
    name: text(record, FIELD.name),
    etag: etagOf(updateTime),
    createTime,
    updateTime,
    tokenCreateTime,
    lastRotationTime: record[FIELD.tokenCreateTime] === undefined ? undefined : tokenCreateTime,
    graceExpireTime: now < graceUntil ? graceUntil : undefined,
    hasForeignToken,
  };
}

/** Whether nothing is stored under the key. */
export function isEmpty(record: GroupRecord): boolean {
  return Object.keys(record).length === 0;
}

/** The update time of a record, as it is stored; empty when the record is not whole. */
export function updateTimeFromRecord(record: GroupRecord): string {
  return record[FIELD.updateTime] ?? record[FIELD.createTime] ?? "";
}

/** Fields and values in turn that hold a token, beside its digest. */
export function tokenFields({ keyId, text, isPacked }: EncryptedToken): string[] {
  return [FIELD.keyId, keyId, ...(isPacked ? [FIELD.token, text] : piecesOf(PIECES.foreignToken, text))];
}

/** What changes with every change of a group: its update time, of which scripts make sure that none comes twice. */
export function etagOf(updateTime: number): string {
  return updateTime.toString(36);
}

/**
 * The update time that a change requires of a group, as scripts take it.
 *
 * @param etag of the request; empty: any will do
 * @returns empty when any will do; a text that is no group's update time when the etag is malformed
 */
export function updateTimeOf(etag: string): string {
  if (etag === "") return "";
  const time = Number.parseInt(etag, 36);
  return Number.isSafeInteger(time) && etagOf(time) === etag ? String(time) : "none";
}

function encryptedToken(record: GroupRecord): EncryptedToken {
  const keyId = text(record, FIELD.keyId);
  const packed = record[FIELD.token];
  if (packed !== undefined) return { keyId, text: packed, isPacked: true };
  const whole = joinPieces(record, PIECES.foreignToken);
  if (whole === undefined) throw new RecordUnreadable(new Error("a record has no token"));
  return { keyId, text: whole, isPacked: false };
}

function properties(record: GroupRecord): JsonObject | undefined {
  return record[`${PIECES.properties}0`] === undefined ? undefined : json(record, PIECES.properties);
}

function text(record: GroupRecord, field: string): string {
  const value = record[field];
  if (value === undefined) throw new RecordUnreadable(new Error(`a record has no field ${field}`));
  return value;
}

function integer(record: GroupRecord, field: string, missing?: number): number {
  if (missing !== undefined && record[field] === undefined) return missing;
  const digits = text(record, field);
  const value = Number(digits);
  if (digits === "" || !Number.isSafeInteger(value))
    throw new RecordUnreadable(new Error(`a record's ${field} is not an integer`));
  return value;
}

function json(record: GroupRecord, field: string): JsonObject {
  const source = joinPieces(record, field);
  if (source === undefined) throw new RecordUnreadable(new Error(`a record has no ${field}`));
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
