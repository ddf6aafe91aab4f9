import type { ChangeBy } from "./audit.ts";
import type { Environment } from "./environment.ts";
import type { PageRequest } from "./page.ts";

/** A key of `TOKEN_KEYS`, without its secret. Times are in milliseconds since 1970 by the store's clock. */
export interface TokenKey {
  readonly id: string;
  /** Whether this process encrypts with the key. */
  readonly isPrimary: boolean;
  /** Whether `TOKEN_KEYS` of this process contains the key. */
  readonly isHeld: boolean;
  /**
   * Whether tokens may be encrypted with the key. This is true from the first use of the key by any process until its
   * retirement.
   */
  readonly isRecorded: boolean;
  /** The time of the last report by a process that encrypts with the key. Undefined if no process reported it. */
  readonly lastEncryptTime: number | undefined;
}

/** The result of re-encrypting a page of groups. */
export interface Reencryption {
  /** The number of groups whose tokens were encrypted with each key, by the id of the key. */
  readonly uses: ReadonlyMap<string, number>;
  /** The number of groups whose tokens were encrypted again. */
  readonly count: number;
  /** The ids of groups whose token cannot be decrypted. */
  readonly failed: readonly string[];
  /** The key of the next page. Undefined on the last page. */
  readonly next: string | undefined;
  /**
   * The number of signing keys that were encrypted with each key, by the id of that key. Only the first page has these
   * numbers.
   */
  readonly signingKeyUses: ReadonlyMap<string, number>;
  /**
   * The number of webhooks whose secrets were encrypted with each key, by the id of the key. Only the first page has
   * these numbers.
   */
  readonly webhookUses: ReadonlyMap<string, number>;
  /** The ids of webhooks whose secrets cannot be decrypted. Only the first page has these ids. */
  readonly failedWebhooks: readonly string[];
  /** The ids of signing keys that cannot be decrypted. Only the first page has these ids. */
  readonly failedSigningKeys: readonly string[];
}

/** The contract of a store of the encryption keys of tokens. The store throws the errors of a user group store. */
export interface TokenKeyStore {
  /** Lists the keys that may have encrypted tokens, the keys of this process, and the time of the read. */
  list(): Promise<{ readonly keys: readonly TokenKey[]; readonly readTime: number }>;

  /**
   * Encrypts the tokens of a page of groups with the first key of this process. A token that has changed since the read
   * is not encrypted again. The first page also encrypts the signing keys and the secrets of webhooks. Every group that
   * exists while the pages are read is on one page.
   *
   * @param isDryRun whether to change nothing
   */
  reencrypt(environment: Environment, page: PageRequest, isDryRun: boolean): Promise<Reencryption>;

  /** Writes the audit event of re-encrypting an environment. @throws TooFewReplicas after the change */
  recordReencryption(environment: Environment, by: ChangeBy): Promise<void>;

  /**
   * Retires a key: stores that no token is encrypted with the key. Fails if a process has encrypted with the key since
   * shortly before `since`. Also fails if a search finds a group that needs the key. The search takes some seconds.
   *
   * @throws TokenKeyInUse; TooFewReplicas after the change
   */
  retire(keyId: string, since: number): Promise<void>;
}
