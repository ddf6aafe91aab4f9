import type { Environment, EnvironmentName } from "./environment.ts";
import type { NewUserGroup, Rotation, UserGroup, UserGroupChange, Viewer } from "./user-group.ts";

/**
 * What a store of user groups must promise. Every method throws
 * `StoreUnavailable` when the store does not answer in time and
 * `RecordUnreadable` when what it holds cannot be read, and never answers from
 * a cache. A change is never made after its caller was told that it failed.
 */
export interface UserGroupStore {
  /**
   * The group with the id; when there is none, the new one, created. Of
   * concurrent creators one creates, and all get the same group. An existing
   * group is not written to. Its team id is no other group's, whatever the
   * store may have forgotten.
   *
   * @throws EnvironmentFull; TooFewReplicas after the change
   */
  getOrCreate(environment: Environment, group: NewUserGroup): Promise<{ group: UserGroup; created: boolean }>;

  /**
   * Replaces the given fields in one atomic step.
   *
   * @param etag when given, the change is made only if the group has it
   * @throws UserGroupNotFound, EtagMismatch; TooFewReplicas after the change
   */
  update(environment: Environment, providedId: string, change: UserGroupChange, etag?: string): Promise<UserGroup>;

  /**
   * Gives a group a new token in one atomic step: of concurrent rotations of
   * one token one wins. The old token ends at once, or when its grace expires;
   * an earlier token that is still on its grace ends at once. Under the request
   * id what it made is kept for 24 hours: a retry gets that token, etag and
   * times again, and the rest of the group as it is then.
   *
   * @throws TokenNotFound when the token is not a group's current one,
   *   UserGroupNotFound, RequestIdReused; TooFewReplicas after the change
   */
  rotate(environment: Environment, rotation: Rotation): Promise<UserGroup>;

  /**
   * The group that a current token, or one on its grace, stands for.
   *
   * @throws TokenNotFound
   */
  resolve(environment: Environment, token: string): Promise<Viewer>;
}

/** What a store of environments must promise. */
export interface EnvironmentStore {
  /** The environment of the name; made when it is missing, with the partitions that are given or else the default. */
  ensureEnvironment(name: EnvironmentName & { readonly partitions?: number }): Promise<Environment>;
}

/** Whether a store can be used. */
export interface StoreProbe {
  /** Asks the store whether it answers, and whether it would make a change. @throws StoreUnavailable */
  ping(): Promise<void>;
}
