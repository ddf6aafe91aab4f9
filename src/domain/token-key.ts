import type { ChangeBy } from "./audit.ts";
import type { Environment } from "./environment.ts";
import type { PageRequest } from "./page.ts";

/** A key of `TOKEN_KEYS`, without the key itself. Times are in milliseconds since 1970 by the store's clock. */
export interface TokenKey {
  readonly id: string;
  /** Whether this process encrypts under it. */
  readonly isPrimary: boolean;
  /** Whether this process has it. */
  readonly isHeld: boolean;
  /** Whether tokens may be encrypted under it: from its first use by any process until it is retired. */
  readonly isRecorded: boolean;
  /** When a process last said that it encrypts under it; undefined: none did. */
  readonly lastEncryptTime: number | undefined;
}

/** What became of the groups of a page. */
export interface Reencryption {
  /** How many groups were found under each key, by its id. */
  readonly uses: ReadonlyMap<string, number>;
  /** How many were encrypted anew. */
  readonly count: number;
  /** The ids of groups whose token cannot be decrypted. */
  readonly failed: readonly string[];
  /** The key after which the next page begins; undefined on the last page. */
  readonly next: string | undefined;
  /** How many keys that sign viewer sessions were found under each key, by its id: the first page tells of them. */
  readonly signingKeyUses: ReadonlyMap<string, number>;
  /** The ids of signing keys that cannot be decrypted, likewise. */
  readonly failedSigningKeys: readonly string[];
}

/** The contract of changing the key that tokens are encrypted under. It throws the same errors as a user group store. */
export interface TokenKeyStore {
  /** Lists the keys that may have encrypted tokens, and those of this process; and when they were read. */
  list(): Promise<{ readonly keys: readonly TokenKey[]; readonly readTime: number }>;

  /**
   * Encrypts the tokens of a page of groups under the first key of this process, each atomically, and only if its group still
   * has the token. The first page also encrypts the keys that sign viewer sessions. Every group that exists while the pages
   * are read is on one of them.
   *
   * @param isDryRun whether nothing is changed
   */
  reencrypt(environment: Environment, page: PageRequest, isDryRun: boolean): Promise<Reencryption>;

  /** Writes the event of a pass over an environment. @throws TooFewReplicas after it was written */
  recordReencryption(environment: Environment, by: ChangeBy): Promise<void>;

  /**
   * Notes that no token is encrypted under a key. No process may have encrypted under it since shortly before `since`, and a
   * search of some seconds must find no group that needs it.
   *
   * @throws TokenKeyInUse; TooFewReplicas after the change
   */
  retire(keyId: string, since: number): Promise<void>;
}
