import { byService, type ChangeBy } from "./audit.ts";
import { HOUR_MS } from "./durations.ts";
import type { Environment } from "./environment.ts";
import type { UserGroupTarget, Viewer } from "./user-group.ts";

/** The maximum duration of a viewer session, in milliseconds. */
export const MAX_SESSION_MS = HOUR_MS;

/** For each group and hour, the maximum number of viewers whose sessions are revoked individually. */
export const MAX_ENDED_VIEWERS = 1000;

interface SessionSubject {
  readonly viewer: Viewer;
  /** The current generation number of the group, for new sessions. */
  readonly generation: number;
}

/** The values of a viewer session that identify its group and its viewer. */
export interface SessionReference {
  readonly providedId: string;
  readonly teamId: number;
  readonly generation: number;
  /** The id of the person within the group. Undefined if the session contains no id of a person. */
  readonly viewerId: string | undefined;
}

export interface SessionOwner {
  readonly providedId: string;
  /** The id of the person within the group. If undefined, this owner has all sessions of the group. */
  readonly viewerId: string | undefined;
}

/**
 * Looks up the groups of viewer sessions. The store contains no sessions. Each group has a generation number, and a new
 * session contains the current number of its group. A revocation increases the number of the group. The new number
 * becomes the lowest valid number, either for all sessions of the group, or only for the sessions of one viewer.
 * Sessions with lower numbers are revoked. The store throws the errors of a `UserGroupStore`.
 */
export interface ViewerSessionStore {
  /**
   * Returns the group with this id or token. The token may be in its grace period.
   *
   * @throws TokenNotFound, UserGroupNotFound
   */
  sessionSubject(environment: Environment, target: UserGroupTarget): Promise<SessionSubject>;

  /**
   * Returns the group of a session whose signature the caller has verified.
   *
   * @throws ViewerSessionEnded if the group was deleted, or if the session was revoked. If a rotation revokes the
   *   replaced token immediately, the rotation revokes the sessions of the group as well
   */
  resolveSession(environment: Environment, session: SessionReference): Promise<Viewer>;
}

/** A signing key. Times are in milliseconds since 1970 by the store's clock. */
export interface SigningKey {
  /** The key id, which is random and not secret. */
  readonly kid: string;
  readonly createTime: number;
  /** The time at which the key begins to sign. The key signs until the `activeTime` of the next key. */
  readonly activeTime: number;
  /** The coordinates of the public key on P-256, in base64url. */
  readonly x: string;
  readonly y: string;
  /** The private key, in base64url. Undefined if the private key was removed or cannot be decrypted. */
  readonly d: string | undefined;
  /** The encrypted private key, in the format of the store. Undefined if no private key is stored. */
  readonly sealed: string | undefined;
}

export interface SigningKeySet {
  /** The keys, in any order. Empty before the first session of the environment. */
  readonly keys: readonly SigningKey[];
  /** A text that changes with every change of the keys. Empty if the environment has no keys. */
  readonly version: string;
  /** The time of the read, by the store's clock. */
  readonly now: number;
}

/** A store of signing keys. The store throws the errors of a `UserGroupStore`. */
export interface SigningKeyStore {
  read(environment: Environment): Promise<SigningKeySet>;

  /**
   * Replaces the keys of an environment if they still have the version `was`, and notifies every worker. If calls run
   * concurrently, one call succeeds, and all calls return the keys of that call. If a key has no `sealed`, the store
   * encrypts the private key `d`.
   *
   * @returns the current keys. `isMade`: whether this call replaced the keys
   * @throws EnvironmentNotFound if the environment was deleted or replaced
   */
  replace(
    environment: Environment,
    keys: readonly SigningKey[],
    options: { readonly was: string; readonly by: ChangeBy },
  ): Promise<SigningKeySet & { readonly isMade: boolean }>;
}

/** The author in audit events of scheduled rotations of signing keys. */
export const IN_TIME = byService("the service, on schedule", "RotateSigningKey");
