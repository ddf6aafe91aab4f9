import type { ChangeBy } from "./audit.ts";
import type { Environment } from "./environment.ts";
import type { PageRequest } from "./page.ts";

/** A key of `TOKEN_KEYS`, without its secret. Times are in milliseconds since 1970 by the store's clock. */
export interface TokenKey {
  readonly id: string;
  /** Whether this process encrypts new data with the key. */
  readonly isPrimary: boolean;
  /** Whether `TOKEN_KEYS` of this process contains the key. */
  readonly isHeld: boolean;
  /** Whether stored data may need the key. True from the first use by any process until `retire` succeeds. */
  readonly isRecorded: boolean;
  /** The time of the last report by a process that encrypts with the key. Undefined if no process has reported. */
  readonly lastEncryptTime: number | undefined;
}

/** One value for each kind of record that contains encrypted secrets. */
export interface ByKind<T> {
  readonly userGroups: T;
  readonly signingKeys: T;
  readonly webhooks: T;
}

/** The result of `reencrypt`. Only the result for the first page includes signing keys and webhooks. */
export interface Reencryption {
  /** For each key id, the number of records that were encrypted with this key before the call. */
  readonly uses: ReadonlyMap<string, ByKind<number>>;
  /** The number of groups whose tokens the call encrypted again. */
  readonly count: number;
  /** The ids of records with a secret that cannot be decrypted. */
  readonly failed: ByKind<readonly string[]>;
  readonly next: string | undefined;
}

/** A store of the encryption keys of tokens. The store throws the errors of a `UserGroupStore`. */
export interface TokenKeyStore {
  /** Lists the keys that stored data may need, and the keys of this process. `readTime` is the time of this read. */
  list(): Promise<{ readonly keys: readonly TokenKey[]; readonly readTime: number }>;

  /**
   * Uses the first key in `TOKEN_KEYS` of this process to encrypt the tokens of a page of groups. If another call
   * changes a token at the same time, this call skips the token. The call for the first page encrypts the signing keys
   * and the secrets of webhooks as well. A group that exists from the first to the last call is on exactly one page.
   *
   * @param by the author of the audit event, which the call for the first page writes. If `by` is undefined, the call
   *   changes nothing, and only counts records
   */
  reencrypt(environment: Environment, page: PageRequest, by: ChangeBy | undefined): Promise<Reencryption>;

  /**
   * Searches for stored data that needs the key. The search takes at most a few seconds. If the search finds no such
   * data, `retire` records that stored data does not need the key.
   *
   * @param since the time at which the re-encryption of all data began, in milliseconds since 1970
   * @throws TokenKeyInUse if a process used the key after `since`, or in the 30 s before `since`; if the search finds
   *   data that needs the key; or if the key is the first key of this process
   */
  retire(keyId: string, since: number): Promise<void>;
}
