import type { StoredRecord } from "./stored-record.ts";

/**
 * Names of the fields of a group's hash. They are one letter long because every group holds them. Numbers are decimal,
 * times milliseconds since 1970 by Redis' clock.
 */
export const FIELD = {
  /** Only in answers of scripts and in what is kept for a request id: a group's key ends with it. */
  providedId: "i",
  teamId: "g",
  name: "n",
  /** Digest of the current token. */
  digest: "d",
  /** Id of the key in `TOKEN_KEYS` that the token is encrypted under. */
  keyId: "k",
  /** The current token, packed and encrypted, when it has the shape of ours. */
  token: "t",
  createTime: "c",
  /** Missing: the same as `createTime`. */
  updateTime: "u",
  /** Missing: the same as `createTime`. Of a token that was imported: of when its import said to be, even if that is earlier. */
  tokenCreateTime: "r",
  /** Digest of the token that is on its grace. */
  graceDigest: "x",
  graceUntil: "y",
  /**
   * Of a current token that the partition's index does not lead to: the partition of its entry (`foreignTokenKey`), a colon
   * and the time of that entry.
   */
  entry: "e",
  /** Only in what is kept for a request id: digest of the request's parameters. */
  fingerprint: "q",
  /** Only in answers of scripts: digest of the token that the first rotation under a request id made. */
  madeDigest: "w",
  /** Only in answers of scripts: `entry` of the token that a group had before, a colon and its digest; or nothing. */
  endedEntry: "v",
  /** Only in answers of scripts: how many audit events were dropped. */
  dropped: "z",
} as const;

/** Values of a group's hash that are kept in pieces: `m0`, `m1` and so on. */
export const PIECES = {
  /** JSON text. */
  mapping: "m",
  /** JSON text; no piece: there are none. */
  properties: "p",
  /** The current token, encrypted whole, when it is of another shape than ours. */
  foreignToken: "f",
} as const;

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

/** Names of the fields of an environment's hash. Numbers are decimal. */
export const ENVIRONMENT_FIELD = {
  partitions: "partitions",
  number: "number",
  /** In milliseconds since 1970 by the clock of the process that made it; missing in one of an earlier version. */
  createTime: "create_time",
  /** Since when it is being deleted, by Redis' clock. */
  deleteTime: "delete_time",
  /** How many partitions it had, in one that is being deleted, or is. */
  formerPartitions: "former_partitions",
  /** Only in one that is deleted. */
  isDeleted: "is_deleted",
  /** How many environments of its name were deleted; missing: none. */
  generation: "generation",
} as const;

/** Names of the fields of an API token's hash. Times are milliseconds since 1970 by Redis' clock. */
export const API_TOKEN_FIELD = {
  id: "id",
  /** As `ENV/TAG`. */
  environment: "environment",
  /** As those of the environment, which never change. */
  partitions: "partitions",
  number: "number",
  displayName: "display_name",
  role: "role",
  creator: "creator",
  /** Missing: the same as `tokenCreateTime`. */
  createTime: "create_time",
  tokenCreateTime: "token_create_time",
  /** Missing: no rotation made it. */
  rotator: "rotator",
  /** Missing: the token does not expire. The key expires then, too. */
  expireTime: "expire_time",
  /** `1` once a rotation gave the API token another text. */
  isReplaced: "is_replaced",
  /** Missing: no use is known. */
  lastUseTime: "last_use_time",
} as const;

/**
 * Names of the fields of an audit event, in the order in which all events have them, so that Redis keeps the names once
 * for many events. The id of an event in its stream tells its time.
 */
export const EVENT_FIELD = {
  actorId: "a",
  actorName: "n",
  role: "r",
  method: "m",
  /** The id of the group or the API token that changed, or what was exported; empty: the environment itself. */
  subject: "i",
  /** Names of the fields that have new values, separated by commas. */
  changedFields: "f",
  requestId: "q",
  peer: "p",
} as const;

/** Redis keeps a hash compact while no value has more bytes than that (`hash-max-listpack-value`). */
const PIECE_BYTES = 64;

/** A longer value is kept whole: pieces would cost more time than they save memory. */
const MAX_SPLIT_BYTES = 1024;

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
  let text = record[`${field}0`];
  if (text === undefined) return undefined;
  for (let i = 1; ; i++) {
    const piece = record[field + i];
    if (piece === undefined) return text;
    text += piece;
  }
}
