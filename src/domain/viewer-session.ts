import { AT_START, type ChangeBy } from "./audit.ts";
import { HOUR_MS } from "./durations.ts";
import type { Environment, EnvironmentName } from "./environment.ts";
import type { UserGroupTarget, Viewer } from "./user-group.ts";

/** The maximum duration of a viewer session, in milliseconds. */
export const MAX_SESSION_MS = HOUR_MS;

/** The maximum number of viewers per group with individually revoked sessions. */
export const MAX_ENDED_VIEWERS = 1000;

interface SessionSubject {
  readonly viewer: Viewer;
  /** The current generation of its sessions. */
  readonly generation: number;
}

/** The values of a viewer session that identify its group. */
export interface SessionReference {
  readonly providedId: string;
  readonly teamId: number;
  readonly generation: number;
  /** The person within the group. Undefined if the session has none. */
  readonly viewerId: string | undefined;
}

/** The owner of the viewer sessions to revoke. */
export interface SessionOwner {
  readonly providedId: string;
  /** The person within the group. Undefined for the whole group. */
  readonly viewerId: string | undefined;
}

/**
 * The contract of viewer sessions. Sessions are not stored. Each session contains the generation of its group, and a
 * revocation increments the generation. The store throws the errors of a user group store, and writes audit events in
 * the same way.
 */
export interface ViewerSessionStore {
  /**
   * Returns the group of an id or of a token. The token may be in its grace period.
   *
   * @throws TokenNotFound, UserGroupNotFound
   */
  sessionSubject(environment: Environment, target: UserGroupTarget): Promise<SessionSubject>;

  /**
   * Returns the group of a session. The caller must verify the signature.
   *
   * @throws ViewerSessionEnded if the group was deleted, its tokens were revoked or rotated without a grace period, or its
   *   sessions or those of the viewer were revoked
   */
  resolveSession(environment: Environment, session: SessionReference): Promise<Viewer>;
}

/** A signing key. Times are in milliseconds since 1970 by the store's clock. */
export interface SigningKey {
  /** The key id. It is random and not secret. */
  readonly kid: string;
  readonly createTime: number;
  /** The time from which the key signs, until the next key signs. */
  readonly activeTime: number;
  /** The coordinates of the public key on P-256, in base64url. */
  readonly x: string;
  readonly y: string;
  /** The private key, in base64url. Undefined if it was removed or cannot be decrypted. */
  readonly d: string | undefined;
  /** The encrypted private key in the form of the store. Undefined if it is not stored. */
  readonly sealed: string | undefined;
}

/** The signing keys of an environment. */
export interface SigningKeySet {
  /** Empty before the first session of the environment. */
  readonly keys: readonly SigningKey[];
  /** A text that changes with the keys. Empty without keys. */
  readonly version: string;
  /** The time of the read, by the store's clock. */
  readonly now: number;
}

/** The contract of a store of signing keys. It throws the errors of a user group store. */
export interface SigningKeyStore {
  /** Returns the keys of an environment, in any order. */
  read(environment: Environment): Promise<SigningKeySet>;

  /** Returns the keys of an environment by its name. Returns no keys if the environment does not exist. */
  readByName(name: EnvironmentName): Promise<SigningKeySet>;

  /**
   * Replaces the keys of an environment if they still have the version `was`, and notifies every worker. If several
   * callers replace the keys at the same time, one call succeeds, and all get the same keys. The store encrypts a
   * private key that has no `sealed`.
   *
   * @returns the current keys, and whether they are the given keys
   * @throws EnvironmentNotFound if the environment was deleted or replaced; TooFewReplicas after the change
   */
  replace(
    environment: Environment,
    keys: readonly SigningKey[],
    options: { readonly was: string; readonly by: ChangeBy },
  ): Promise<SigningKeySet & { readonly isMade: boolean }>;
}

/** The author of scheduled rotations of signing keys by the service. */
export const IN_TIME: ChangeBy = {
  ...AT_START,
  actorName: "the service, on schedule",
  method: "RotateSigningKey",
};
