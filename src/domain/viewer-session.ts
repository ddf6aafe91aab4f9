import { AT_START, type ChangeBy } from "./audit.ts";
import type { Environment, EnvironmentName } from "./environment.ts";
import type { UserGroupTarget, Viewer } from "./user-group.ts";

/** How long a viewer session may last at most, in milliseconds. */
export const MAX_SESSION_MS = 3_600_000;

/** How many viewers of a group may have their sessions ended apart from the group's, at a time. */
export const MAX_ENDED_VIEWERS = 1000;

/** The group that a viewer session is to be made for. */
interface SessionSubject {
  readonly viewer: Viewer;
  /** The generation that its sessions are of now. */
  readonly generation: number;
}

/** What a viewer session says of its group. */
export interface SessionReference {
  readonly providedId: string;
  readonly teamId: number;
  readonly generation: number;
  /** The person within the group; undefined: nobody is named. */
  readonly viewerId: string | undefined;
}

/** Whose viewer sessions are ended. */
export interface SessionOwner {
  readonly providedId: string;
  /** The person within the group; undefined: all of it. */
  readonly viewerId: string | undefined;
}

/**
 * The contract of viewer sessions. They are not stored: a group has a generation, which each session carries, and which rises
 * whenever sessions are ended. It throws what a user group store throws, and writes audit events as it does.
 */
export interface ViewerSessionStore {
  /**
   * The group of a token, which may be on its grace, or of an id.
   *
   * @throws TokenNotFound, UserGroupNotFound
   */
  sessionSubject(environment: Environment, target: UserGroupTarget): Promise<SessionSubject>;

  /**
   * Returns the group of a session, whose signature is the caller's to check.
   *
   * @throws ViewerSessionEnded when the group is gone or another one of its id, or its tokens were revoked or rotated without
   *   a grace since, or its sessions or those of the viewer were ended
   */
  resolveSession(environment: Environment, session: SessionReference): Promise<Viewer>;
}

/** A key that signs viewer sessions. Times are in milliseconds since 1970 by the store's clock. */
export interface SigningKey {
  /** Random, and not secret. */
  readonly kid: string;
  readonly createTime: number;
  /** When it begins to sign; it signs until the next one does. */
  readonly activeTime: number;
  /** Coordinates of its point on P-256, in base64url. */
  readonly x: string;
  readonly y: string;
  /** The private key, in base64url; undefined: there is none any more, or it cannot be decrypted. */
  readonly d: string | undefined;
  /** The private key as it is stored, which only the store understands; undefined: it is not stored. */
  readonly sealed: string | undefined;
}

/** The signing keys of an environment at a time. */
export interface SigningKeySet {
  /** None: no session was made in the environment yet. */
  readonly keys: readonly SigningKey[];
  /** Changes whenever the keys do; empty: there are none. */
  readonly version: string;
  /** When they were read, by the store's clock. */
  readonly now: number;
}

/** The contract of a store of signing keys. It throws what a user group store throws. */
export interface SigningKeyStore {
  /** Returns the keys of an environment, in no order. */
  read(environment: Environment): Promise<SigningKeySet>;

  /** The same by name; none if there is no such environment. */
  readByName(name: EnvironmentName): Promise<SigningKeySet>;

  /** Returns the paths of the environments, at most 100,000. It is a hint: one may be missing after a failover. */
  environments(): Promise<ReadonlySet<string>>;

  /**
   * Makes these the keys of an environment, if its keys are still of a version, and tells every worker. When several callers
   * do so at once, one succeeds and all get the same keys. A private key is stored as it was, else encrypted.
   *
   * @returns the keys that there are now, and whether these are the given ones
   * @throws EnvironmentNotFound when it is deleted, or another one by now; TooFewReplicas after the change
   */
  replace(
    environment: Environment,
    keys: readonly SigningKey[],
    options: { readonly was: string; readonly by: ChangeBy },
  ): Promise<SigningKeySet & { readonly isMade: boolean }>;
}

/** Who changes signing keys when it is time: no caller does, but the service. */
export const IN_TIME: ChangeBy = {
  ...AT_START,
  actorName: "the service, as it was time",
  method: "RotateSigningKey",
};
