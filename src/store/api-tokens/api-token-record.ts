import type { ApiToken, ApiTokenFilter } from "../../domain/api-token.ts";
import { RecordUnreadable } from "../../domain/errors.ts";
import { isRole } from "../../domain/role.ts";
import { integerOf, optionalIntegerOf, type ReadRecord, type StoredRecord, textOf } from "../records.ts";

interface TokenSecret {
  readonly digest: string;
  /** The expiry time of the secret. Undefined if the secret does not expire. */
  readonly expireTime: number | undefined;
}

/** Decodes the secrets of an API token: the current secret, and then the former secrets. @throws RecordUnreadable */
export function secretsFrom(id: string, record: StoredRecord): readonly [TokenSecret, ...TokenSecret[]] {
  const what = `the API token ${id}`;
  const expireTime = optionalIntegerOf(record, "expire_time", what);
  const words = record["previous"]?.split(" ") ?? [];
  const previous = words.flatMap((digest, i) => {
    if (i % 2 === 1) return [];
    const graceEnd = integerOf({ previous: words[i + 1] }, "previous", what);
    return [{ digest, expireTime: Math.min(graceEnd, expireTime ?? graceEnd) }];
  });
  return [{ digest: textOf(record, "digest", what), expireTime }, ...previous];
}

/**
 * Decodes an API token.
 *
 * @throws RecordUnreadable. The cause contains the id, so that an operator can revoke the API token
 */
export function apiTokenFrom(id: string, { record, now }: ReadRecord): ApiToken {
  const what = `the API token ${id}`;
  const role = record["role"];
  if (!isRole(role)) throw new RecordUnreadable(new Error(`${what} has no known role`));
  const [{ expireTime }, ...previous] = secretsFrom(id, record);
  const graceEnds = previous.flatMap((secret) => secret.expireTime ?? []).filter((end) => end > now);
  return {
    id,
    displayName: textOf(record, "display_name", what),
    role,
    createTime: integerOf(record, "create_time", what),
    expireTime,
    creator: textOf(record, "creator", what),
    rotator: record["rotator"],
    tokenCreateTime: integerOf(record, "token_create_time", what),
    graceExpireTime: graceEnds.length > 0 ? Math.max(...graceEnds) : undefined,
    lastUseTime: optionalIntegerOf(record, "last_use_time", what),
  };
}

export function matches(
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
