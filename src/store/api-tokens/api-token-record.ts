import type { ApiToken, ApiTokenFilter } from "../../domain/api-token.ts";
import { RecordUnreadable } from "../../domain/errors.ts";
import { isRole } from "../../domain/role.ts";
import { integerOf, optionalIntegerOf, type StoredRecord, textOf } from "../records.ts";

/** Names of the fields of the hash of an API token's secret. Times are milliseconds since 1970 by Redis' clock. */
export const API_TOKEN_FIELD = {
  id: "id",
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

/** The record of an API token, by the names of `API_TOKEN_FIELD`; without any of them when there is none. */
export type ApiTokenRecord = { readonly [name in keyof typeof API_TOKEN_FIELD]?: string | undefined };

/** The record that a hash holds. */
export function recordFromHash(hash: StoredRecord): ApiTokenRecord {
  const fields = Object.entries(API_TOKEN_FIELD).flatMap(([name, field]) =>
    hash[field] === undefined ? [] : [[name, hash[field]]],
  );
  return Object.fromEntries(fields);
}

/** What a record is stored as: fields and values in turn. */
export function fieldsOf(record: ApiTokenRecord): string[] {
  return Object.entries(API_TOKEN_FIELD).flatMap(([name, field]) => {
    const value = record[name as keyof ApiTokenRecord];
    return value === undefined ? [] : [field, value];
  });
}

/** A secret of an API token, by its digest, and its record. */
export interface TokenSecret {
  readonly id: string;
  readonly digest: string;
  readonly record: ApiTokenRecord;
}

/** Whether a rotation replaced a secret. */
export function isReplaced({ record }: TokenSecret): boolean {
  return record.isReplaced !== undefined;
}

/** The current secret of an API token, which no rotation replaced; undefined when nothing is left of the token. */
export function currentOf<T extends TokenSecret>(secrets: readonly T[]): T | undefined {
  return secrets.find((secret) => !isReplaced(secret)) ?? secrets[0];
}

/**
 * The API token that its secrets make up; undefined when nothing is left of it.
 *
 * @throws RecordUnreadable, whose cause names the token by its id, so that an operator can revoke it
 */
export function apiTokenFrom(secrets: readonly TokenSecret[]): ApiToken | undefined {
  const current = currentOf(secrets);
  if (!current) return undefined;
  const { id, record } = current;
  const what = `the API token ${id}`;
  const role = record.role;
  if (!isRole(role)) throw new RecordUnreadable(new Error(`${what} has no known role`));
  const latest = (field: "expireTime" | "lastUseTime", among: readonly TokenSecret[]) =>
    among
      .flatMap((secret) => optionalIntegerOf(secret.record, field, what) ?? [])
      .reduce<number | undefined>((last, time) => Math.max(last ?? time, time), undefined);
  const tokenCreateTime = integerOf(record, "tokenCreateTime", what);
  const graced = secrets.filter((secret) => secret !== current && isReplaced(secret));
  return {
    id,
    displayName: textOf(record, "displayName", what),
    role,
    createTime: optionalIntegerOf(record, "createTime", what) ?? tokenCreateTime,
    expireTime: optionalIntegerOf(record, "expireTime", what),
    creator: textOf(record, "creator", what),
    rotator: record.rotator,
    tokenCreateTime,
    graceExpireTime: latest("expireTime", graced),
    lastUseTime: latest("lastUseTime", secrets),
  };
}

/** Whether a list shows an API token. */
export function isWanted(
  { creator, role, lastUseTime = Number.NEGATIVE_INFINITY }: ApiToken,
  { usedSince = Number.NEGATIVE_INFINITY, unusedSince = Number.POSITIVE_INFINITY, ...filter }: ApiTokenFilter,
): boolean {
  return (
    (filter.creator === undefined || filter.creator === creator) &&
    (filter.role === undefined || filter.role === role) &&
    lastUseTime >= usedSince &&
    lastUseTime < unusedSince
  );
}

/** How an audit event names an API token: `ID ROLE NAME`, also of one whose record is damaged. */
export function subjectOf({ id, role = "", displayName = "" }: ApiTokenRecord): string {
  return `${id} ${role} ${displayName}`;
}
