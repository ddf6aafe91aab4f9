import type { Environment } from "../../domain/environment.ts";
import {
  EnvironmentFull,
  EnvironmentNotFound,
  EtagMismatch,
  RecordUnreadable,
  TooManyEndedViewers,
  UserGroupNotFound,
} from "../../domain/errors.ts";
import type {
  Json,
  JsonObject,
  ListedUserGroup,
  UserGroup,
  UserGroupChange,
  UserGroupInfo,
  Viewer,
} from "../../domain/user-group.ts";
import type { Audit } from "../audit/audit.ts";
import { type EncryptedToken, keyMissing, type TokenCipher } from "../encryption/encryption.ts";
import { integerOf, optionalIntegerOf, type StoredRecord, textOf } from "../records.ts";
import type { StoreClient } from "../redis/client.ts";
import { FIELD, PIECES } from "./fields.ts";

/** What user groups are read and changed with. */
export interface GroupDeps {
  readonly client: StoreClient;
  readonly cipher: TokenCipher;
  readonly audit: Audit;
}

/** What the scripts for groups refuse a change with. */
const REFUSALS: ReadonlyMap<string | undefined, new () => Error> = new Map<string, new () => Error>([
  ["missing", UserGroupNotFound],
  ["stale", EtagMismatch],
  ["closed", EnvironmentNotFound],
  ["full", EnvironmentFull],
  ["too-many", TooManyEndedViewers],
]);

/** The answer of a script to a change of a group. @throws the error of a refusal; RecordUnreadable */
export function requireDone(operation: string, answer: readonly string[]): readonly string[] {
  const [state, , detail = ""] = answer;
  const Refusal = REFUSALS.get(state);
  if (Refusal) throw new Refusal();
  if (state === "unreadable") throw new RecordUnreadable(new Error(`${operation}: a record is not whole`), "not_made");
  if (state === "locked") throw keyMissing(detail, { outcome: "not_made" });
  return answer;
}

/** The token of a record as it is stored. @throws RecordUnreadable */
export function encryptedFromRecord(record: StoredRecord): EncryptedToken {
  const keyId = textOf(record, FIELD.keyId);
  const packed = record[FIELD.token];
  const text = packed ?? joinPieces(record, PIECES.foreignToken);
  if (text === undefined) throw new RecordUnreadable(new Error("a record has no token"));
  return { keyId, text, isPacked: packed !== undefined };
}

/**
 * The group that a record holds.
 *
 * @param providedId of the group; the default is for answers of scripts, which hold it
 * @throws RecordUnreadable
 */
export function groupFromRecord(
  record: StoredRecord,
  environment: Environment,
  cipher: TokenCipher,
  providedId = textOf(record, FIELD.providedId),
): UserGroup {
  const createTime = integerOf(record, FIELD.createTime);
  const { [FIELD.updateTime]: updated, [FIELD.tokenCreateTime]: rotated } = record;
  const updateTime = updated === undefined ? createTime : integerOf(record, FIELD.updateTime);
  return {
    teamId: integerOf(record, FIELD.teamId),
    name: textOf(record, FIELD.name),
    providedId,
    mapping: jsonOf(record, PIECES.mapping) as UserGroup["mapping"],
    properties: jsonOf(record, PIECES.properties),
    environmentTag: environment.tag,
    token: cipher.decrypt(environment, encryptedFromRecord(record), textOf(record, FIELD.digest)),
    etag: etagOf(updateTime),
    createTime,
    updateTime,
    tokenCreateTime: rotated === undefined ? createTime : integerOf(record, FIELD.tokenCreateTime),
  };
}

/**
 * The group as a change has left it.
 *
 * @throws RecordUnreadable, with the outcome `unknown`: the record was damaged before, and the change may be made
 */
export function changedGroup(...[record, environment, cipher, providedId]: Parameters<typeof groupFromRecord>) {
  try {
    return groupFromRecord(record, environment, cipher, providedId);
  } catch (error) {
    throw error instanceof RecordUnreadable ? new RecordUnreadable(error.cause, "unknown") : error;
  }
}

/**
 * The viewer that a script's answer shows to the bearer of its token.
 *
 * @param graced whether the token is the one on its grace, not the current one
 * @throws RecordUnreadable
 */
export function viewerFromRecord(record: StoredRecord, environment: Environment, graced: boolean): Viewer {
  return {
    teamId: integerOf(record, FIELD.teamId),
    name: textOf(record, FIELD.name),
    providedId: textOf(record, FIELD.providedId),
    mapping: jsonOf(record, PIECES.mapping) as UserGroup["mapping"],
    properties: jsonOf(record, PIECES.properties),
    environmentTag: environment.tag,
    tokenExpireTime: graced ? integerOf(record, FIELD.graceUntil) : undefined,
  };
}

/** The generation that viewer sessions of a group are of now, or the first that is not ended. @throws RecordUnreadable */
export function generationOf(record: StoredRecord, field: "generation" | "firstGeneration" = "generation"): number {
  return optionalIntegerOf(record, FIELD[field]) ?? 0;
}

/** What operators may see of a group. @param now Redis' clock. @throws RecordUnreadable */
export function infoFromRecord(record: StoredRecord, providedId: string, now: number): UserGroupInfo {
  return {
    ...listedFromRecord(record, providedId, now),
    mapping: jsonOf(record, PIECES.mapping) as UserGroup["mapping"],
    properties: jsonOf(record, PIECES.properties),
  };
}

/** The fields of a group's record that a list shows. */
export const LISTED_FIELDS = [
  FIELD.teamId,
  FIELD.name,
  FIELD.createTime,
  FIELD.updateTime,
  FIELD.tokenCreateTime,
  FIELD.graceUntil,
  FIELD.entry,
] as const;

/** What a list tells of a group, from its `LISTED_FIELDS` at the least. @param now Redis' clock. @throws RecordUnreadable */
export function listedFromRecord(record: StoredRecord, providedId: string, now: number): ListedUserGroup {
  const createTime = integerOf(record, FIELD.createTime);
  const updateTime = optionalIntegerOf(record, FIELD.updateTime) ?? createTime;
  const tokenCreateTime = tokenTimeOf(record);
  const graceUntil = optionalIntegerOf(record, FIELD.graceUntil) ?? 0;
  return {
    teamId: integerOf(record, FIELD.teamId),
    providedId,
    name: textOf(record, FIELD.name),
    etag: etagOf(updateTime),
    ...{ createTime, updateTime, tokenCreateTime },
    // One that came with the group may date from an earlier time.
    lastRotationTime: tokenCreateTime > createTime ? tokenCreateTime : undefined,
    graceExpireTime: now < graceUntil ? graceUntil : undefined,
    hasForeignToken: record[FIELD.entry] !== undefined,
  };
}

/** Since when a group has its token, in milliseconds since 1970. @throws RecordUnreadable */
export function tokenTimeOf(record: StoredRecord): number {
  return optionalIntegerOf(record, FIELD.tokenCreateTime) ?? integerOf(record, FIELD.createTime);
}

/**
 * The arguments of scripts for a change.
 *
 * @returns the names of the changed fields; for each changed field that is stored in pieces, its field in the hash and the
 *   number of the first piece that is no longer needed; and the fields of the hash to set, with their values
 */
export function changedFields({ name, mapping, properties }: UserGroupChange) {
  const names: string[] = [];
  const replaced: string[] = [];
  const set: string[] = [];
  const replace = (field: string, value: object | null) => {
    const pieces = value === null ? [] : piecesOf(field, JSON.stringify(value));
    set.push(...pieces);
    replaced.push(field, String(pieces.length / 2));
  };
  if (name !== undefined) {
    names.push("name");
    set.push(FIELD.name, name);
  }
  if (mapping !== undefined) {
    names.push("mapping");
    replace(PIECES.mapping, mapping);
  }
  if (properties !== undefined) {
    names.push("properties");
    replace(PIECES.properties, properties);
  }
  return { names, replaced, set };
}

/** What `changedFields` tells, as the arguments of a script. */
export function changeArgs({ names, replaced, set }: ReturnType<typeof changedFields>) {
  return { names: names.join(","), replaced: replaced.length / 2, rest: [...replaced, ...set] };
}

/** Fields and values in turn that hold a token, beside its digest. */
export function tokenFields({ keyId, text, isPacked }: EncryptedToken): string[] {
  return [FIELD.keyId, keyId, ...(isPacked ? [FIELD.token, text] : piecesOf(PIECES.foreignToken, text))];
}

/** The etag of a group is its update time, which scripts keep unique for the group. */
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

/** The JSON object of a field; undefined when it is missing, as only properties may be. @throws RecordUnreadable */
function jsonOf(record: StoredRecord, field: string): JsonObject | undefined {
  const source = joinPieces(record, field);
  if (source === undefined) {
    if (field === PIECES.properties) return undefined;
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

/** Redis keeps a hash compact while no value has more bytes than that (`hash-max-listpack-value`). */
const PIECE_BYTES = 64;

/** A longer value is kept whole: pieces would cost more time than they save memory. */
const MAX_SPLIT_BYTES = 1024;

/** A piece lacks up to three bytes, because a character is not cut. */
const MAX_PIECES = Math.ceil(MAX_SPLIT_BYTES / (PIECE_BYTES - 3));

/** The fields of the pieces, by what they are pieces of: more than the longest value that is split has. */
const PIECE_NAMES: { readonly [field: string]: readonly string[] } = Object.fromEntries(
  Object.values(PIECES).map((field) => [field, Array.from({ length: MAX_PIECES }, (_, i) => field + i)]),
);

const OF_OUR_TOKEN = [FIELD.keyId, FIELD.digest, FIELD.token];

/** The fields of a record that its token needs: one of ours, or any. */
export const TOKEN_FIELDS = {
  ofOurs: OF_OUR_TOKEN,
  ofAll: [...OF_OUR_TOKEN, ...(PIECE_NAMES[PIECES.foreignToken] as readonly string[])],
} as const;

/** A text as fields and values in turn, none too long for the compact form unless the text is. */
export function piecesOf(field: string, text: string): string[] {
  const bytes = Buffer.from(text);
  if (bytes.length <= PIECE_BYTES || bytes.length > MAX_SPLIT_BYTES) return [`${field}0`, text];
  const pieces: string[] = [];
  for (let start = 0; start < bytes.length; ) {
    let end = Math.min(start + PIECE_BYTES, bytes.length);
    // A character is not cut: its second and further bytes begin with the bits 10.
    while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
    pieces.push(`${field}${pieces.length / 2}`, bytes.toString("utf8", start, end));
    start = end;
  }
  return pieces;
}

/** The text that pieces hold; undefined when there is none. */
export function joinPieces(record: StoredRecord, field: string): string | undefined {
  const names = PIECE_NAMES[field] as readonly string[];
  let text = record[names[0] as string];
  for (let i = 1; text !== undefined && i < names.length; i++) {
    const piece = record[names[i] as string];
    if (piece === undefined) return text;
    text += piece;
  }
  return text;
}
