import type { ChangeBy } from "./audit.ts";
import type { Environment } from "./environment.ts";
import type { Page, PageRequest } from "./page.ts";
import type { Role } from "./role.ts";
import { randomBase62 } from "./token.ts";

/** An issued API token, without the token itself, which is not stored. Times are milliseconds since 1970. */
export interface ApiToken {
  /** Not secret. */
  readonly id: string;
  readonly displayName: string;
  readonly role: Role;
  readonly createTime: number;
  /** Undefined: it lasts until it is revoked. */
  readonly expireTime: number | undefined;
  /** The id of the principal that created it. */
  readonly creator: string;
  /** The id of the principal that last rotated it; undefined: none did. */
  readonly rotator: string | undefined;
  /** When its current text was made. */
  readonly tokenCreateTime: number;
  /** Until when a text before the current one is valid; undefined: none is. */
  readonly graceExpireTime: number | undefined;
  /** When any of its texts was last used; undefined: no use is known. */
  readonly lastUseTime: number | undefined;
}

/** The values of a new API token. */
export type NewApiToken = Pick<ApiToken, "displayName" | "role" | "expireTime" | "creator">;

/** A change of an API token: the values that it gets; those that are left out stay. */
export interface ApiTokenChange {
  readonly displayName?: string;
  /** Null: it does not expire. */
  readonly expireTime?: number | null;
}

/** How an API token is rotated. */
export interface ApiTokenRotation {
  /** How long the text before stays valid, in milliseconds; 0: it ends at once. */
  readonly graceMs: number;
  /** The id of the principal that rotates it. */
  readonly rotator: string;
  /** When the API token must end at the latest, in milliseconds since 1970; undefined: it need not end. */
  readonly notBeyond: number | undefined;
}

/** Which API tokens to list; all that is given must hold. */
export interface ApiTokenFilter {
  readonly creator?: string | undefined;
  readonly role?: Role | undefined;
  /** Those last used at this time or later, in milliseconds since 1970. */
  readonly usedSince?: number | undefined;
  /** Those last used before this time, or never. */
  readonly unusedSince?: number | undefined;
}

/** The most API tokens that an environment has. */
export const MAX_API_TOKENS = 1000;

/** The most replaced texts of an API token that are in their grace at once. */
export const MAX_GRACED = 2;

/** An issued API token that is valid, with what authentication needs. */
export interface ValidApiToken {
  /** Its expiry and last use are those of the text that was looked for. */
  readonly apiToken: ApiToken;
  /** Whether a rotation replaced the text, which is then in its grace. */
  readonly isReplaced: boolean;
  readonly environment: Environment;
  /** How long it remains valid, in milliseconds; Infinity when it does not expire. */
  readonly expiresInMs: number;
  /** How long ago it was last used, in milliseconds; Infinity when no use is known. */
  readonly unusedForMs: number;
}

/** The length of an id: about 95 bits, so that no two are equal. */
const ID_LENGTH = 16;

/** Generates the id of an API token. */
export function newApiTokenId(): string {
  return randomBase62(ID_LENGTH);
}

/** Whether a text may be the id of an API token. */
export function isApiTokenId(text: string): boolean {
  return /^[0-9A-Za-z]{16}$/.test(text);
}

/** Where an API token is stored. */
export interface ApiTokenKey {
  /** The number of its environment (`environmentNumberOf`). */
  readonly number: number;
  /** `apiTokenDigest` of its secret. */
  readonly digest: string;
}

/**
 * The contract of a store of API tokens. It throws the same errors as a user group store, and knows secrets by their digests.
 * Every change is atomic, with its audit events; reported to every `RevocationListener`, and holds from then on.
 */
export interface ApiTokenStore {
  /**
   * Creates an API token. Only the answer has the token itself.
   *
   * @throws EnvironmentNotFound, TooManyApiTokens; ApiTokenChanged if the creator is an API token of the environment that was
   *   revoked; TooFewReplicas after the change
   */
  create(
    environment: Environment,
    values: NewApiToken,
    by: ChangeBy,
  ): Promise<{ readonly apiToken: ApiToken; readonly token: string }>;

  /**
   * Lists the API tokens of an environment in order of their ids, which are its keys. A token that exists while the pages
   * are read is on exactly one of them.
   */
  list(environment: Environment, filter: ApiTokenFilter, page: PageRequest): Promise<Page<ApiToken>>;

  /**
   * Changes values of an API token, also for its secrets in their grace period, which does not get longer by it.
   *
   * @throws ApiTokenNotFound; TooFewReplicas after the change
   */
  update(environment: Environment, id: string, change: ApiTokenChange, by: ChangeBy): Promise<ApiToken>;

  /**
   * Gives an API token a new secret, which only the answer has. The secret before it stays valid for the grace period; one that
   * is already in its grace period keeps the rest of it, so that a rotation whose answer was lost can be repeated. At most
   * `MAX_GRACED` are valid.
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
   * Revokes an API token with all its secrets: from then on `find` does not find them. Returns how many it revoked.
   *
   * @param options `issued`: also all that it created or rotated, that these did, and so on; it may be gone itself. It revokes
   *   them in steps, first those that were issued last. If it fails between two, a repeated call revokes the others
   * @throws ApiTokenNotFound when there was none to revoke; TooFewReplicas after the change
   */
  revoke(environment: Environment, id: string, by: ChangeBy, options?: { readonly issued?: boolean }): Promise<number>;

  /**
   * Returns an API token, never from a cache; undefined when it is unknown, revoked or expired by the store's clock, or its
   * environment is deleted or being deleted.
   */
  find(key: ApiTokenKey): Promise<ValidApiToken | undefined>;

  /**
   * Notes that an API token was used just now, unless it is gone or a use within `USE_INTERVAL_MS` is noted already. A failure
   * loses the note.
   */
  noteUse(key: ApiTokenKey): Promise<void>;
}

/** How often the use of an API token is noted, in milliseconds. */
export const USE_INTERVAL_MS = 60_000;

/** Told when API tokens are revoked or changed, wherever that is done, so that a cache can forget them. */
export interface RevocationListener {
  /** The environment is being deleted, and with it all its API tokens. */
  environmentDeleted(environment: Environment): void;
  /** The API token with this digest was revoked or changed. The text may be no digest: then nothing is to be done. */
  revoked(digest: string): void;
  /** Any API token may have been. */
  missed(): void;
}
