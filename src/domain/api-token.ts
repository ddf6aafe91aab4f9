import type { ChangeBy } from "./audit.ts";
import type { Environment } from "./environment.ts";
import type { Page, PageRequest } from "./page.ts";
import type { Role } from "./role.ts";

/** An issued API token, without its secret. The secret is not stored. Times are in milliseconds since 1970. */
export interface ApiToken {
  /** The id. It is not secret. */
  readonly id: string;
  readonly displayName: string;
  readonly role: Role;
  readonly createTime: number;
  /** Undefined if it does not expire. */
  readonly expireTime: number | undefined;
  /** The id of the principal that created it. */
  readonly creator: string;
  /** The id of the principal that last rotated it. Undefined if it was never rotated. */
  readonly rotator: string | undefined;
  /** The creation time of the current secret. */
  readonly tokenCreateTime: number;
  /** The end of the grace period of a former secret. Undefined if no former secret is valid. */
  readonly graceExpireTime: number | undefined;
  /** The time of the last use of any secret of the API token. Undefined if no use is known. */
  readonly lastUseTime: number | undefined;
}

/** The values of a new API token. */
export type NewApiToken = Pick<ApiToken, "displayName" | "role" | "expireTime" | "creator">;

/** A change of an API token. Missing values stay the same. */
export interface ApiTokenChange {
  readonly displayName?: string;
  /** Null: the API token no longer expires. */
  readonly expireTime?: number | null;
}

/** A rotation of an API token. */
export interface ApiTokenRotation {
  /** The grace period of the former secret, in milliseconds. 0 revokes it at once. */
  readonly graceMs: number;
  /** The id of the principal that rotates it. */
  readonly rotator: string;
  /** The latest allowed expiry time of the API token, in milliseconds since 1970. Undefined: no limit. */
  readonly notBeyond: number | undefined;
}

/** A filter for API tokens. All given conditions must be true. */
export interface ApiTokenFilter {
  readonly creator?: string | undefined;
  readonly role?: Role | undefined;
  /** Only API tokens that were used at this time or later, in milliseconds since 1970. */
  readonly usedSince?: number | undefined;
  /** Only API tokens that were last used before this time, or never. */
  readonly unusedSince?: number | undefined;
}

/** The maximum number of API tokens of an environment. */
export const MAX_API_TOKENS = 1000;

/** The maximum number of secrets in their grace period, per API token. */
export const MAX_GRACED = 2;

/** A valid API token, with the values for authentication. */
export interface ValidApiToken {
  /** The API token. `expireTime` is the expiry time of the presented secret. */
  readonly apiToken: ApiToken;
  /** Whether a rotation replaced the presented secret, so that the secret is in its grace period. */
  readonly isReplaced: boolean;
  readonly environment: Environment;
  /** The remaining time until the presented secret expires, in milliseconds. Infinity if the secret does not expire. */
  readonly expiresInMs: number;
  /** The time since its last use, in milliseconds. Infinity if no use is known. */
  readonly unusedForMs: number;
}

/** The key of an API token in the store. */
export interface ApiTokenKey {
  /** The number of the token's environment (`environmentNumberOf`). */
  readonly number: number;
  /** `apiTokenDigest` of the secret. */
  readonly digest: string;
}

/**
 * The contract of a store of API tokens. The store throws the errors of a user group store. It stores digests of
 * secrets. Every change is atomic with its audit events, and every `RevocationListener` receives it.
 */
export interface ApiTokenStore {
  /**
   * Creates an API token. Only the result has its secret.
   *
   * @throws EnvironmentNotFound, TooManyApiTokens; ApiTokenChanged if the creator is an API token of the environment that was
   *   revoked, or a revocation of many API tokens is in progress; TooFewReplicas after the change
   */
  create(
    environment: Environment,
    values: NewApiToken,
    by: ChangeBy,
  ): Promise<{ readonly apiToken: ApiToken; readonly token: string }>;

  /**
   * Lists the API tokens of an environment in the order of their ids, which are the keys of the pages. A token that
   * exists while the pages are read is on exactly one page.
   *
   * @param onUnreadable receives the id of an API token whose record cannot be read. The page does not contain this
   *   token. Default: throws RecordUnreadable
   */
  list(
    environment: Environment,
    filter: ApiTokenFilter,
    page: PageRequest,
    onUnreadable?: (id: string) => void,
  ): Promise<Page<ApiToken>>;

  /**
   * Changes values of an API token. The change also applies to secrets in their grace period, but does not extend a
   * grace period.
   *
   * @throws ApiTokenNotFound; TooFewReplicas after the change
   */
  update(environment: Environment, id: string, change: ApiTokenChange, by: ChangeBy): Promise<ApiToken>;

  /**
   * Creates a new secret for an API token. Only the result has the secret. The former secret stays valid for the grace
   * period. A secret that is already in its grace period keeps its expiry time. So the caller can repeat a rotation
   * whose response was lost. At most `MAX_GRACED` former secrets are valid.
   *
   * @throws ApiTokenNotFound, ApiTokenChanged, ApiTokenOutlivesCaller; TooFewReplicas after the change
   */
  rotate(
    environment: Environment,
    id: string,
    rotation: ApiTokenRotation,
    by: ChangeBy,
  ): Promise<{ readonly apiToken: ApiToken; readonly token: string }>;

  /**
   * Revokes an API token with all its secrets. After that, `find` does not return it. Returns the number of revoked API tokens.
   *
   * @param options `issued`: also revokes all API tokens that this API token issued (created or rotated), directly or
   *   through other API tokens. Revoked and expired API tokens do not end this chain. The API token itself need not
   *   exist. The call revokes it first, and then the other API tokens in steps. Until five seconds after the last step,
   *   API tokens of the environment cannot issue other API tokens. After an error, a repeated call revokes the rest
   * @throws ApiTokenNotFound if there was nothing to revoke; TooFewReplicas after the change
   */
  revoke(environment: Environment, id: string, by: ChangeBy, options?: { readonly issued?: boolean }): Promise<number>;

  /**
   * Returns an API token, never from a cache. Undefined if the token is unknown, revoked, or expired by the store's
   * clock. Also undefined if its environment is deleted or being deleted.
   */
  find(key: ApiTokenKey): Promise<ValidApiToken | undefined>;

  /**
   * Stores the current time as the last use of an API token. Does nothing if the token no longer exists, or if the
   * stored use is less than `USE_INTERVAL_MS` old. If the call fails, the use is not stored.
   */
  noteUse(environment: Environment, id: string): Promise<void>;
}

/** The minimum time between two stored uses of an API token, in milliseconds. */
export const USE_INTERVAL_MS = 60_000;

/** Receives revocations and changes of API tokens by any worker, to remove the tokens from caches. */
export interface RevocationListener {
  /** The environment is being deleted, with all its API tokens. */
  environmentDeleted(environment: Environment): void;
  /** The API token with this digest was revoked or changed. Ignores a text that is not a digest. */
  revoked(digest: string): void;
  /** Messages were lost: any API token may have been revoked or changed. */
  missed(): void;
}
