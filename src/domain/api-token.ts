import type { ChangeBy } from "./audit.ts";
import type { Environment } from "./environment.ts";
import type { Page, PageRequest } from "./page.ts";
import type { Role } from "./role.ts";

/** An issued API token. Redis stores only digests of its secrets. Times are in milliseconds since 1970. */
export interface ApiToken {
  /** The id, which is not secret. */
  readonly id: string;
  readonly displayName: string;
  readonly role: Role;
  readonly createTime: number;
  /** Undefined if the API token does not expire. */
  readonly expireTime: number | undefined;
  /** The id of the principal that created the API token. */
  readonly creator: string;
  /** The id of the principal that last rotated the API token. Undefined before the first rotation. */
  readonly rotator: string | undefined;
  readonly tokenCreateTime: number;
  /** The latest expiry time of the former secrets. Undefined if no former secret is valid now. */
  readonly graceExpireTime: number | undefined;
  /** The time of the last use of any secret. Undefined if no use is known. */
  readonly lastUseTime: number | undefined;
}

export type NewApiToken = Pick<ApiToken, "displayName" | "role" | "expireTime">;

/** A change of an API token. An omitted value does not change. */
export interface ApiTokenChange {
  readonly displayName?: string;
  /** Null removes the expiry time. */
  readonly expireTime?: number | null;
}

export interface ApiTokenRotation {
  /** The grace period of the replaced secret, in milliseconds. 0 revokes this secret immediately. */
  readonly graceMs: number;
  /**
   * The latest allowed expiry time of the API token, in milliseconds since 1970. If the API token expires later, the
   * rotation throws ApiTokenOutlivesCaller. Undefined if every expiry time is allowed.
   */
  readonly notBeyond: number | undefined;
}

/** A filter for API tokens. An API token must meet all given conditions. */
export interface ApiTokenFilter {
  readonly creator?: string | undefined;
  readonly role?: Role | undefined;
  /** An API token matches if its last use is at this time or later, in milliseconds since 1970. */
  readonly usedSince?: number | undefined;
  /** An API token matches if its last use is before this time, in milliseconds since 1970, or if no use is known. */
  readonly unusedSince?: number | undefined;
}

/** The maximum number of API tokens of an environment. */
export const MAX_API_TOKENS = 1000;

/** The maximum number of former secrets of an API token that are in their grace period. */
export const MAX_GRACED = 2;

export interface ValidApiToken {
  /** The API token. Its `expireTime` is the expiry time of the presented secret. */
  readonly apiToken: ApiToken;
  /** Whether the presented secret is a former secret in its grace period. */
  readonly isReplaced: boolean;
  readonly environment: Environment;
  /** The remaining lifetime of the presented secret, in milliseconds. Infinity if the secret does not expire. */
  readonly expiresInMs: number;
  /** The time since the last use of the API token, in milliseconds. Infinity if no use is known. */
  readonly unusedForMs: number;
}

interface ApiTokenWithSecret {
  readonly apiToken: ApiToken;
  readonly token: string;
}

export interface ApiTokenKey {
  /** The number of the token's environment. */
  readonly number: number;
  /** The result of `apiTokenDigest` for the secret. */
  readonly digest: string;
}

/**
 * A store of API tokens. The store throws the errors of a `UserGroupStore`. The store commits every change and its
 * audit events in one atomic step, and reports the change to every `RevocationListener`. A call of `revoke` with the
 * option `issued` makes several such changes.
 */
export interface ApiTokenStore {
  /**
   * Creates an API token. Its `creator` is the author of the change. Only the result of this call contains the secret.
   *
   * @throws EnvironmentNotFound, TooManyApiTokens; ApiTokenChanged if the API token of the caller was revoked, or if a
   *   call of `revoke` with the option `issued` is running or ended less than five seconds ago
   */
  create(environment: Environment, values: NewApiToken, by: ChangeBy): Promise<ApiTokenWithSecret>;

  /**
   * Lists the API tokens of an environment in the order of their ids. Page keys are ids. An API token that exists
   * during the whole listing is on exactly one page.
   *
   * @param onUnreadable is called with the id of each API token whose record cannot be read. The page omits these API
   *   tokens. Default: throws RecordUnreadable
   */
  list(
    environment: Environment,
    filter: ApiTokenFilter,
    page: PageRequest,
    onUnreadable?: (id: string) => void,
  ): Promise<Page<ApiToken>>;

  /**
   * Changes values. If the change sets an expiry time, former secrets expire at this time at the latest. @throws
   * ApiTokenNotFound
   */
  update(environment: Environment, id: string, change: ApiTokenChange, by: ChangeBy): Promise<ApiToken>;

  /**
   * Creates a new secret. Only the result of this call contains the secret. The replaced secret stays valid for the
   * grace period. Older secrets expire no later than the replaced secret. At most `MAX_GRACED` former secrets stay
   * valid. If the response is lost, the caller can rotate again.
   *
   * @throws ApiTokenNotFound, ApiTokenChanged, ApiTokenOutlivesCaller
   */
  rotate(environment: Environment, id: string, rotation: ApiTokenRotation, by: ChangeBy): Promise<ApiTokenWithSecret>;

  /**
   * Revokes an API token with all its secrets. After the call, `find` does not return the API token. The result is the
   * number of revoked API tokens.
   *
   * If `issued` is true, also revokes each API token that this API token created or rotated, directly or through other
   * API tokens. The call also finds API tokens whose creator or rotator is revoked or expired. The call also works if
   * no API token has this id. The call first revokes the API token with this id, and then the other API tokens in
   * steps. Until five seconds after the last step, API tokens of the environment cannot create or rotate API tokens. If
   * the call fails, a repeated call revokes the remaining API tokens.
   *
   * @throws ApiTokenNotFound if the call found no API token to revoke
   */
  revoke(environment: Environment, id: string, by: ChangeBy, options?: { readonly issued?: boolean }): Promise<number>;

  /**
   * Returns the API token of a secret, never from a cache. Returns undefined if the secret is unknown, revoked, or
   * expired by the store's clock. Also returns undefined if the environment is deleted or being deleted.
   */
  find(key: ApiTokenKey): Promise<ValidApiToken | undefined>;

  /** Stores the current time as the last use, at most once per `USE_INTERVAL_MS`. Ignores an unknown id. */
  noteUse(environment: Environment, id: string): Promise<void>;
}

/** The minimum time between two stored uses of an API token, in milliseconds. */
export const USE_INTERVAL_MS = 60_000;

/** Receives the revocations and changes of API tokens from all workers, so that caches can drop these API tokens. */
export interface RevocationListener {
  environmentDeleted(environment: Environment): void;
  /** Called after the API token with this digest was revoked or changed. Must ignore a value that is not a digest. */
  revoked(digest: string): void;
  /** Called after messages were lost. A cache must drop all API tokens, because each of them may have changed. */
  missed(): void;
}
