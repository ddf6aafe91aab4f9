import type { Environment, EnvironmentName } from "./environment.ts";
import type { NewUserGroup, Rotation, UserGroup, UserGroupChange, Viewer } from "./user-group.ts";

/**
 * The contract of a user group store. Every method throws `StoreUnavailable` when the store does not answer in time,
 * and `RecordUnreadable` when a stored record cannot be read. No method answers from a cache. A change is never made
 * after its caller was told that it failed.
 */
export interface UserGroupStore {
  /**
   * Returns the group with the id, or creates it. When several callers create it concurrently, one succeeds and all get
   * the same group. An existing group is not changed. The team id is unique, even if the store has lost data.
   *
   * @throws EnvironmentFull; TooFewReplicas after the change
   */
  getOrCreate(environment: Environment, group: NewUserGroup): Promise<{ group: UserGroup; created: boolean }>;

  /**
   * Replaces the given fields atomically.
   *
   * @param etag if given, the change is made only if the group has this etag
   * @throws UserGroupNotFound, EtagMismatch; TooFewReplicas after the change
   */
  update(environment: Environment, providedId: string, change: UserGroupChange, etag?: string): Promise<UserGroup>;

  /**
   * Gives a group a new token atomically. When several callers rotate one token concurrently, one succeeds. The old
   * token ends at once, or when its grace expires. An earlier token still in its grace ends at once. With a request id,
   * the result is kept for 24 hours: a retry gets the same token, etag and times, and the current values of the other
   * fields.
   *
   * @throws TokenNotFound when the token is not a group's current one, UserGroupNotFound, RequestIdReused;
   *   TooFewReplicas after the change
   */
  rotate(environment: Environment, rotation: Rotation): Promise<UserGroup>;

  /**
   * Returns the group of a current token, or of a token in its grace.
   *
   * @throws TokenNotFound
   */
  resolve(environment: Environment, token: string): Promise<Viewer>;
}

/** The contract of an environment store. */
export interface EnvironmentStore {
  /** Returns the environment with this name, or creates it with the given number of partitions, or the default. */
  ensureEnvironment(name: EnvironmentName & { readonly partitions?: number }): Promise<Environment>;
}

/** Checks whether a store is usable. */
export interface StoreProbe {
  /** Checks that the store answers and accepts changes. @throws StoreUnavailable */
  ping(): Promise<void>;
}
