import type { AuditFilter, ChangeBy, ExportedUserGroups } from "./audit.ts";
import type { Environment, EnvironmentName, ListedEnvironment } from "./environment.ts";
import type { DomainError } from "./errors.ts";
import { EnvironmentNotFound } from "./errors.ts";
import type { EventPage, EventStart, FeedEvent } from "./events.ts";
import type { Page, PageRequest } from "./page.ts";
import type {
  ImportedUserGroup,
  ImportOptions,
  NewSuspension,
  NewUserGroup,
  Rotation,
  UserGroup,
  UserGroupChange,
  UserGroupInfo,
  UserGroupTarget,
  Viewer,
} from "./user-group.ts";
import type { SessionOwner } from "./viewer-session.ts";

/** The maximum duration of a call to the store, in milliseconds. The setting `REDIS_TIMEOUT` has the same maximum. */
export const MAX_STORE_CALL_MS = 60_000;

/**
 * A store of user groups. No method returns cached data. Every change writes one audit event in the same atomic step,
 * with the author `by`. A call that changes nothing writes no event.
 *
 * Every method throws `StoreUnavailable` if the store does not answer in time, and `RecordUnreadable` if a stored
 * record cannot be read. If a change fails with one of these two errors, the change may have been committed before the
 * error, but is never committed after the error. If a change fails with `TooFewReplicas`, the change is committed, but
 * too few replicas confirmed it. After any other error, the change is not committed.
 */
export interface UserGroupStore {
  /** Returns the group with the id, and changes nothing. @throws UserGroupNotFound */
  get(environment: Environment, providedId: string): Promise<UserGroup>;

  /**
   * Returns the group with the id, and does not change it. If the group does not exist, creates the group with a unique
   * team id. Concurrent calls for the same id create only one group.
   *
   * @throws EnvironmentFull
   */
  getOrCreate(
    environment: Environment,
    group: NewUserGroup,
    by: ChangeBy,
  ): Promise<{ group: UserGroup; created: boolean }>;

  /**
   * Replaces fields atomically. If `etag` is not empty, the group must have this etag.
   *
   * @throws UserGroupNotFound, EtagMismatch
   */
  update(
    environment: Environment,
    providedId: string,
    change: UserGroupChange,
    etag: string,
    by: ChangeBy,
  ): Promise<UserGroup>;

  /**
   * Replaces the token of a group atomically. The replaced token stays valid for the grace period. If an older token
   * was still in its grace period, the older token is revoked immediately. If several callers rotate the same token at
   * the same time, only one call succeeds.
   *
   * A retry is a call with the same request id, within 24 hours of the first call. A retry returns the current group
   * with the token that the first call created, and writes no event.
   *
   * @throws UserGroupNotFound if no group has the id
   * @throws TokenNotFound if no group has the token as its current token
   * @throws RequestIdReused if a call with other parameters had the same request id
   * @throws TokenReplaced if the token of the first call was replaced before the retry
   */
  rotate(environment: Environment, rotation: Rotation, by: ChangeBy): Promise<UserGroup>;

  /**
   * Returns the group of a current token, or of a token in its grace period. Also returns a suspended group.
   *
   * @throws TokenNotFound
   */
  resolve(environment: Environment, token: string): Promise<Viewer>;
}

export interface UserGroupRange extends PageRequest {
  /** The prefix of the ids. `""` selects all groups. */
  readonly prefix: string;
  /** Selects groups whose name contains this text. The case of ASCII letters is ignored. Default: all groups. */
  readonly nameContains?: string;
}

/** The administration of user groups. The methods throw the errors and write the audit events of a `UserGroupStore`. */
export interface UserGroupAdminStore {
  /**
   * Lists groups in the order of the UTF-8 bytes of their ids. Page keys are ids. A group that exists during the whole
   * listing is on exactly one page. With `nameContains`, a page may have few or no items, even if more pages follow.
   */
  list(environment: Environment, range: UserGroupRange): Promise<Page<UserGroupInfo>>;

  /**
   * Lists groups with all values, in the order of `list`. A page has at most about 1 MiB. If a single group is larger,
   * this group is alone on its page.
   */
  export(environment: Environment, range: UserGroupRange): Promise<ExportedPage>;

  /** Returns a group without its token, and changes nothing. @throws UserGroupNotFound */
  lookUp(environment: Environment, providedId: string): Promise<UserGroupInfo>;

  /**
   * Deletes a group and revokes its tokens atomically. A new group with the same id has another team id and another
   * token. If a rotation of the deleted group is retried, the retry does not return the token of the new group.
   *
   * @param etag the etag that the group must have. If empty, the group may have any etag
   * @throws TokenNotFound if the target is a token, but not the current token of a group; UserGroupNotFound,
   *   EtagMismatch
   */
  delete(environment: Environment, target: UserGroupTarget, etag: string, by: ChangeBy): Promise<void>;

  /**
   * Suspends a group atomically. If the group is already suspended, replaces the values of its suspension, but keeps
   * `suspendTime`. If the new values equal the old values, nothing changes. Every call that begins after this call has
   * returned finds the group suspended.
   *
   * @throws UserGroupNotFound
   */
  suspend(
    environment: Environment,
    providedId: string,
    suspension: NewSuspension,
    by: ChangeBy,
  ): Promise<UserGroupInfo>;

  /** Ends the suspension of a suspended group atomically. @throws UserGroupNotFound, UserGroupExpired */
  resume(environment: Environment, providedId: string, by: ChangeBy): Promise<UserGroupInfo>;

  /**
   * Replaces the token of a group atomically. If an older token is still in its grace period, the older token is
   * revoked immediately.
   *
   * @param revocation `graceMs`: the grace period of the replaced token, in milliseconds; 0 revokes this token
   *   immediately. `requestId`: if this id is not empty, a second call with the same id within 24 hours changes nothing
   * @throws UserGroupNotFound, RequestIdReused
   */
  revokeTokens(
    environment: Environment,
    providedId: string,
    revocation: { readonly graceMs: number; readonly requestId: string },
    by: ChangeBy,
  ): Promise<UserGroupInfo>;

  /**
   * Atomically revokes all sessions of a group, or all sessions of one viewer. @throws UserGroupNotFound,
   * TooManyEndedViewers
   */
  endSessions(environment: Environment, whose: SessionOwner, by: ChangeBy): Promise<void>;

  /**
   * Imports groups, and returns the outcomes in the order of the groups. The import of each group is atomic, and does
   * not depend on the other groups. A group that has the imported values does not change, so an import can be repeated.
   *
   * If the token of an existing group is younger than `snapshotTime`, the group keeps this token. Otherwise the group
   * gets the imported token, and `snapshotTime` becomes the creation time of the token. If `replaceNewerTokens` is
   * true, the imported token also replaces a younger token, and gets the creation time of the younger token. If the
   * imported token belongs to another group, as its current token or in a grace period, the outcome is `failed`. A
   * suspended group keeps its suspension and its `expireTime`.
   *
   * @param groups the ids and the tokens of the groups must be unique
   */
  import(
    environment: Environment,
    groups: readonly ImportedUserGroup[],
    options: ImportOptions,
    by: ChangeBy,
  ): Promise<readonly ImportOutcome[]>;
}

/**
 * The outcome of the import of a group, and the names of its changed fields.
 *
 * - `token-newer`: the group kept its token, because the token is younger than `snapshotTime`. The group has all other
 *   imported values.
 * - `suspended`: the group was already suspended, and kept its suspension and its `expireTime`. The suspension or the
 *   `expireTime` differs from the import. If the token of the group is younger than `snapshotTime`, the group also kept
 *   its token.
 */
export type ImportOutcome =
  | {
      readonly outcome: "created" | "updated" | "unchanged" | "token-newer" | "suspended";
      readonly changedFields: readonly string[];
    }
  | { readonly outcome: "failed"; readonly error: DomainError };

interface ExportedPage extends Page<UserGroup> {
  /** A time in milliseconds since 1970, by the store's clock. The groups of the page were read after this time. */
  readonly snapshotTime: number;
}

/** A store of environments. The methods throw the errors and write the audit events of a `UserGroupStore`. */
export interface EnvironmentStore {
  /**
   * Returns the environment with this name, or creates it. @throws EnvironmentNotFound if the last environment with
   * this name is deleted or being deleted
   */
  ensureEnvironment(name: EnvironmentName, by: ChangeBy): Promise<Environment>;

  /**
   * Creates an environment. If an environment with the same name was deleted, the new environment has another number,
   * and none of the deleted data. After an interrupted creation, either the environment exists, or a repeated call
   * creates it.
   *
   * @throws EnvironmentExists, EnvironmentBeingDeleted
   */
  create(name: EnvironmentName, by: ChangeBy): Promise<ListedEnvironment>;

  /** Returns an environment. @throws EnvironmentNotFound if the environment does not exist or is being deleted */
  find(name: EnvironmentName): Promise<Environment>;

  /**
   * Returns all environments with this name, including deleted environments, the latest first.
   *
   * @throws EnvironmentNotFound
   */
  findAll(name: EnvironmentName): Promise<readonly ListedEnvironment[]>;

  /** Returns an environment, even if the environment is being deleted. @throws EnvironmentNotFound */
  get(name: EnvironmentName): Promise<ListedEnvironment>;

  countUserGroups(environment: Environment): Promise<number>;

  /**
   * Lists the environments in the order of their paths (`environmentPath`). An environment that exists during the whole
   * listing is on exactly one page.
   */
  list(page: PageRequest): Promise<Page<ListedEnvironment>>;

  /**
   * Deletes an environment. If the environment has user groups, the first call needs `force`. After the first call, all
   * tokens of the environment are invalid, `find` throws EnvironmentNotFound, and changes in the environment fail. Each
   * call deletes a limited number of groups. Repeat the call until the result is 0. Also repeat a call that failed. The
   * audit trail stays.
   *
   * @returns the number of remaining groups. 0 if the environment is deleted
   * @throws EnvironmentNotFound if the environment does not exist or is already deleted; EnvironmentNotEmpty
   */
  delete(name: EnvironmentName, force: boolean, by: ChangeBy): Promise<number>;
}

/** Records the day on which a group was last used (`UserGroupInfo.lastResolveDay`). */
export interface LastResolveNotes {
  /** Records that the group of the viewer was used today. The store writes the day later, in the background. */
  note(environment: Environment, viewer: Viewer): void;
}

/** A store of audit events. The store throws the errors of a `UserGroupStore`. */
export interface AuditStore {
  /** Writes the audit event of an export of tokens. */
  recordExport(environment: Environment, exported: ExportedUserGroups, by: ChangeBy): Promise<void>;

  /**
   * Lists the events of each environment, in the given order of the environments. Within an environment, the newest
   * event is the first. An event that exists during the whole listing is on exactly one page. An event that is written
   * during the listing may be missing. A page may have few or no items, even if more pages follow.
   *
   * @throws InvalidPageToken; AuditEventsExpired if the first event of the page was removed after the previous page was
   *   read
   */
  list(environments: readonly ListedEnvironment[], filter: AuditFilter, page: PageRequest): Promise<Page<FeedEvent>>;
}

/** A feed of the events of the audit trail. The feed throws the errors of a `UserGroupStore`. */
export interface EventStore {
  /**
   * Reads up to `size` events in the order of their ids, in one round trip. The event of a later change has a higher
   * id, so a reader that continues at `next` misses no event. A page may have fewer events than `size`, even if more
   * events follow.
   *
   * @throws EventCursorExpired if events after `start` were removed or lost; EnvironmentNotFound if the environment is
   *   deleted
   */
  readEvents(environment: Environment, start: EventStart, size: number): Promise<EventPage>;
}

/** The kinds of health checks. A store that is full or read-only fails `changes`, but passes `reads`. */
export const READY_KINDS = ["reads", "changes"] as const;

export type ReadyKind = (typeof READY_KINDS)[number];

export interface StoreProbe {
  /**
   * With `reads`, checks that the store answers reads. With `changes`, checks that the store commits changes. @throws
   * StoreUnavailable, TooFewReplicas
   */
  check(kind: ReadyKind): Promise<void>;
}

/** A rate limit with a fixed time window. The first count starts a window. */
export interface RateLimit {
  /** The maximum count in a window. */
  readonly max: number;
  /** The length of a window, in whole seconds. */
  readonly windowSeconds: number;
}

export interface Count {
  /** The sum of the counts of all workers in the current window. */
  readonly total: number;
  /** The remaining time of the window, in milliseconds. */
  readonly resetMs: number;
}

export interface RateCounter {
  /** Adds `amount` to the counter of a key. Rejects if the store is unavailable. */
  add(key: string, amount: number): Promise<Count>;
}

/** The limit that a call has reached. */
export interface Limited {
  readonly limit: RateLimit;
  /** The time until the limit allows another call, in milliseconds. */
  readonly retryAfterMs: number;
}

/** Returns undefined for an `EnvironmentNotFound`. @throws any other error */
export function unlessNotFound(error: unknown): undefined {
  if (!(error instanceof EnvironmentNotFound)) throw error;
}
