import type { ApiToken, ApiTokenFilter } from "../../domain/api-token.ts";
import { RecordUnreadable } from "../../domain/errors.ts";
import { isRole } from "../../domain/role.ts";
import { integerOf, isEmpty, optionalIntegerOf, recordFromAnswer, type StoredRecord, textOf } from "../records.ts";

/** A secret of an API token. */
export interface TokenSecret {
  readonly digest: string;
  /** Its hash (`apiTokenKey`). */
  readonly record: StoredRecord;
}

/** A secret with the id of its API token. */
type IdentifiedSecret = TokenSecret & { readonly id: string };

/** The secrets in the response of a script. The record of an expired or revoked secret is empty. */
export function* allSecretsFrom(answer: readonly string[]): Generator<IdentifiedSecret> {
  for (let at = 2; at < answer.length; ) {
    const [id = "", digest = ""] = (answer[at] as string).split(" ");
    const end = at + 2 + Number(answer[at + 1]);
    yield { id, digest, record: recordFromAnswer(answer.slice(at + 2, end), 0) };
    at = end;
  }
}

/** The valid ones of some secrets, by the ids of their API tokens. The list of an API token without a valid secret is empty. */
export function validById(secrets: Iterable<IdentifiedSecret>): Map<string, TokenSecret[]> {
  const valid = new Map<string, TokenSecret[]>();
  for (const { id, digest, record } of secrets) {
    const found = valid.get(id) ?? [];
    valid.set(id, isEmpty(record) ? found : [...found, { digest, record }]);
  }
  return valid;
}

export function isReplaced({ record }: TokenSecret): boolean {
  return record["is_replaced"] !== undefined;
}

/**
 * Combines the secrets of an API token.
 *
 * @returns undefined if there are no secrets
 * @throws RecordUnreadable. Its cause contains the id, so that an operator can revoke the token
 */
export function apiTokenFrom(id: string, secrets: readonly TokenSecret[]): ApiToken | undefined {
  const current = secrets.find((secret) => !isReplaced(secret)) ?? secrets[0];
  if (!current) return undefined;
  const { record } = current;
  const what = `the API token ${id}`;
  const role = record["role"];
  if (!isRole(role)) throw new RecordUnreadable(new Error(`${what} has no known role`));
  const latest = (field: string, among: readonly TokenSecret[]) =>
    among
      .flatMap((secret) => optionalIntegerOf(secret.record, field, what) ?? [])
      .reduce<number | undefined>((last, time) => Math.max(last ?? time, time), undefined);
  const tokenCreateTime = integerOf(record, "token_create_time", what);
  return {
    id,
    displayName: textOf(record, "display_name", what),
    role,
    createTime: optionalIntegerOf(record, "create_time", what) ?? tokenCreateTime,
    expireTime: optionalIntegerOf(record, "expire_time", what),
    creator: textOf(record, "creator", what),
    rotator: record["rotator"],
    tokenCreateTime,
    graceExpireTime: latest(
      "expire_time",
      secrets.filter((secret) => secret !== current && isReplaced(secret)),
    ),
    lastUseTime: latest("last_use_time", secrets),
  };
}

/** Whether an API token matches a filter. */
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
