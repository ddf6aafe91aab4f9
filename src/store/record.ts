import type { Environment } from "../domain/environment.ts";
import { RecordUnreadable } from "../domain/errors.ts";
import type { Json, JsonObject, UserGroup, Viewer } from "../domain/user-group.ts";
import type { TokenCipher } from "./encryption.ts";

/**
 * A group as its hash holds it. Numbers are decimal, times milliseconds since
 * 1970 by Redis' clock, `mapping` and `properties` JSON text, `token` encrypted.
 * `token_digest` is the digest of the current token, `grace_digest` and
 * `grace_until` those of the one that is on its grace. No index is believed
 * against them.
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
 * @param providedId of the group that was asked for; undefined when only its token was known
 * @throws RecordUnreadable
 */
export function groupFromRecord(
  record: GroupRecord,
  environment: Environment,
  cipher: TokenCipher,
  providedId?: string,
): UserGroup {
  // A record that came into another's place by mistake decrypts, but says whose it is.
  if (providedId !== undefined && text(record, "provided_id") !== providedId) {
    throw new RecordUnreadable(new Error("a record is not of the group that it is stored for"));
  }
  return {
    teamId: integer(record, "team_id"),
    name: text(record, "name"),
    providedId: text(record, "provided_id"),
    mapping: json(record, "mapping") as { [schemaId: string]: string },
    properties: properties(record),
    environmentTag: environment.tag,
    token: cipher.decrypt(environment, text(record, "token"), text(record, "token_digest")),
    etag: text(record, "etag"),
    createTime: integer(record, "create_time"),
    updateTime: integer(record, "update_time"),
    tokenCreateTime: integer(record, "token_create_time"),
  };
}

/**
 * The viewer that a record shows to the bearer of its token.
 *
 * @param graced whether the token is the one on its grace, not the current one
 * @throws RecordUnreadable
 */
export function viewerFromRecord(record: GroupRecord, environment: Environment, graced: boolean): Viewer {
  return {
    teamId: integer(record, "team_id"),
    name: text(record, "name"),
    providedId: text(record, "provided_id"),
    mapping: json(record, "mapping") as { [schemaId: string]: string },
    properties: properties(record),
    environmentTag: environment.tag,
    tokenExpireTime: graced ? integer(record, "grace_until") : undefined,
  };
}

function properties(record: GroupRecord): JsonObject | undefined {
  return record["properties"] === undefined ? undefined : json(record, "properties");
}

function text(record: GroupRecord, field: string): string {
  const value = record[field];
  if (value === undefined) throw new RecordUnreadable(new Error(`a record has no field ${field}`));
  return value;
}

function integer(record: GroupRecord, field: string): number {
  const digits = text(record, field);
  const value = Number(digits);
  if (digits === "" || !Number.isSafeInteger(value))
    throw new RecordUnreadable(new Error(`a record's ${field} is not an integer`));
  return value;
}

function json(record: GroupRecord, field: string): JsonObject {
  const source = text(record, field);
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
