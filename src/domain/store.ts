import type { AuditEvent, AuditFilter, ChangeBy, ExportedUserGroups } from "./audit.ts";
import type { Environment, EnvironmentName, ListedEnvironment } from "./environment.ts";
import type { DomainError } from "./errors.ts";
import type { Page, PageRequest } from "./page.ts";
import type {
  ImportedUserGroup,
  ImportOptions,
  ListedUserGroup,
  NewUserGroup,
  Rotation,
  UserGroup,
  UserGroupChange,
  UserGroupInfo,
  UserGroupTarget,
  Viewer,
} from "./user-group.ts";
import type { SessionOwner } from "./viewer-session.ts";

/** The maximum duration of a call to the store, in milliseconds, which is the maximum of `REDIS_TIMEOUT`. */
export const MAX_STORE_CALL_MS = 60_000;

/**
 * The contract of a user group store. Every method throws `StoreUnavailable` when the store does not answer in time,
 * and `RecordUnreadable` when a stored record cannot be read. No method answers from a cache. A change is never made
 * after its call has failed. Every change writes one audit event in the same atomic step. A call that changes nothing writes no
 * event. `by` is the author of the change.
 */
export interface UserGroupStore {
  /**
   * Returns the group with the id, and changes nothing.
   *
   * @throws UserGroupNotFound
   */
  get(environment: Environment, providedId: string): Promise<UserGroup>;

  /**
   * Returns the group with the id, or creates it. When several callers create it concurrently, one succeeds and all get
   * the same group. An existing group is not changed. The team id is unique.
   *
   * @throws EnvironmentFull; TooFewReplicas after the change
   */
  getOrCreate(
    environment: Environment,
    group: NewUserGroup,
    by: ChangeBy,
  ): Promise<{ group: UserGroup; created: boolean }>;

  /**
   * Replaces the given fields atomically.
   *
   * @param etag unless it is empty, the change is made only if the group has this etag
   * @throws UserGroupNotFound, EtagMismatch; TooFewReplicas after the change
   */
  update(
    environment: Environment,
    providedId: string,
    change: UserGroupChange,
    etag: string,
    by: ChangeBy,
  ): Promise<UserGroup>;

  /**
   * Gives a group a new token atomically. When several callers rotate one token concurrently, one succeeds. The old
   * token ends at once, or when its grace expires. An earlier token still in its grace ends at once. With a request id,
   * which token was made is kept for 24 hours: a retry gets the group as it is now, with that token, and writes no event.
   *
   * @throws TokenNotFound when the token is not a group's current one, UserGroupNotFound, RequestIdReused, TokenReplaced
   *   when a retry comes after the token that was made has been replaced; TooFewReplicas after the change
   */
  rotate(environment: Environment, rotation: Rotation, by: ChangeBy): Promise<UserGroup>;

  /**
   * Returns the group of a current token, or of a token in its grace.
   *
   * @throws TokenNotFound
   */
  resolve(environment: Environment, token: string): Promise<Viewer>;
}

/** Which user groups to list. */
export interface UserGroupRange extends PageRequest {
  /** What their ids begin with; `""`: all. */
  readonly prefix: string;
}

/** Which user groups to list, also by name. */
export interface UserGroupSearch extends UserGroupRange {
  /** A part of their names, in which ASCII letters match in either case; `""`: all. */
  readonly nameContains: string;
}

/**
 * The contract of what operators do with user groups. It throws what a user group store throws, and writes audit events as
 * it does.
 */
export interface UserGroupAdminStore {
  /**
   * Lists groups in order of the UTF-8 bytes of their ids, which are its keys. A group that exists while the pages are
   * read is on exactly one of them. A page of a search by name may have few items, or none, though more pages follow.
   */
  list(environment: Environment, search: UserGroupSearch): Promise<Page<ListedUserGroup>>;

  /** Lists groups with all their values, in the same order. A page has at most about 1 MiB, but at least one group. */
  export(environment: Environment, range: UserGroupRange): Promise<ExportedPage>;

  /** Returns a group without its token, and changes nothing. @throws UserGroupNotFound */
  lookUp(environment: Environment, providedId: string): Promise<UserGroupInfo>;

  /**
   * Deletes a group atomically. Its tokens are revoked at once. A later group with the same id has another team id and another
   * token. A request id of an earlier rotation never returns that token.
   *
   * @param etag unless it is empty, the group is deleted only if it has this etag
   * @throws TokenNotFound if no group has this current token; UserGroupNotFound, EtagMismatch; TooFewReplicas after the change
   */
  delete(environment: Environment, target: UserGroupTarget, etag: string, by: ChangeBy): Promise<void>;

  /**
   * Revokes the tokens of a group atomically, including one in its grace period, and creates a new one.
   *
   * @param revocation `graceMs`: the grace period of the current token, in milliseconds; 0 revokes it at once. `requestId`: if it
   *   is not empty, a retry within 24 hours changes nothing
   * @throws UserGroupNotFound, RequestIdReused; TooFewReplicas after the change
   */
  revokeTokens(
    environment: Environment,
    providedId: string,
    revocation: { readonly graceMs: number; readonly requestId: string },
    by: ChangeBy,
  ): Promise<UserGroupInfo>;

  /**
   * Revokes atomically all existing viewer sessions of a group, or of one viewer.
   *
   * @throws UserGroupNotFound, TooManyEndedViewers without a change; TooFewReplicas after the change
   */
  endSessions(environment: Environment, whose: SessionOwner, by: ChangeBy): Promise<void>;

  /**
   * Imports groups, each atomically and independently of the others. The outcomes have the order of the groups. An equal group does
   * not change, so an import can be repeated. A group keeps a token that is younger than the snapshot. Otherwise it gets the
   * imported token, with the time of the snapshot as its creation time. A token never belongs to two groups: the import refuses a
   * token of another group, even in its grace period.
   *
   * @param groups without duplicate ids or tokens
   */
  import(
    environment: Environment,
    groups: readonly ImportedUserGroup[],
    options: ImportOptions,
    by: ChangeBy,
  ): Promise<readonly ImportOutcome[]>;
}

/**
 * The outcome of a group in an import, and the names of its changed fields. `token-newer`: the group kept its token, which is
 * younger than the snapshot, and has all other imported values.
 */
export type ImportOutcome =
  | {
      readonly outcome: "created" | "updated" | "unchanged" | "token-newer";
      readonly changedFields: readonly string[];
    }
  | { readonly outcome: "failed"; readonly error: DomainError };

/** A page of groups with all their values. */
interface ExportedPage extends Page<UserGroup> {
  /** A time before the page was read, in milliseconds since 1970 by the store's clock. Later changes are younger. */
  readonly snapshotTime: number;
}

/** The contract of an environment store. It throws the errors of a user group store, and writes audit events in the same way. */
export interface EnvironmentStore {
  /** Returns the environment with this name, or creates it. @throws EnvironmentNotFound if it was deleted */
  ensureEnvironment(name: EnvironmentName, by: ChangeBy): Promise<Environment>;

  /**
   * Creates an environment. After the deletion of one with the same name, the new one has another number and none of the old data.
   * The next look-up of the environment completes an interrupted creation.
   *
   * @throws EnvironmentExists, EnvironmentBeingDeleted; TooFewReplicas after the change
   */
  create(name: EnvironmentName, by: ChangeBy): Promise<ListedEnvironment>;

  /** Returns an environment. @throws EnvironmentNotFound, also if it is being deleted */
  find(name: EnvironmentName): Promise<Environment>;

  /** Returns all environments with this name, including deleted ones, the latest first. @throws EnvironmentNotFound */
  findAll(name: EnvironmentName): Promise<readonly ListedEnvironment[]>;

  /** Returns an environment, even if it is being deleted. @throws EnvironmentNotFound */
  get(name: EnvironmentName): Promise<ListedEnvironment>;

  /** Counts the user groups of an environment. */
  countUserGroups(environment: Environment): Promise<number>;

  /**
   * Lists the environments in order of their paths (`environmentPath`). An environment that exists while the pages are read
   * is on exactly one of them. The keys of the pages are the path and the number, as `isEnvironmentKey` takes them.
   */
  list(page: PageRequest): Promise<Page<ListedEnvironment>>;
}

/** The contract of the deletion of environments. It throws the same errors as a user group store. */
export interface EnvironmentDeletion {
  /**
   * Deletes an environment that is empty, or with `force` one that has user groups. A call deletes a limited number of groups.
   * Repeat it until no group is left, and after an error. After the first call, look-ups do not find the environment, changes in it
   * fail, and its API tokens and user group tokens are invalid. Its audit trail stays.
   *
   * @returns the number of remaining groups. 0 if the environment is deleted
   * @throws EnvironmentNotFound if it does not exist or is already deleted; EnvironmentNotEmpty without a change
   */
  delete(name: EnvironmentName, force: boolean, by: ChangeBy): Promise<number>;
}

/** The contract of a store of audit events. It throws the errors of a user group store. */
export interface AuditStore {
  /**
   * Writes the event of an export of tokens into the audit trail of the environment.
   *
   * @throws TooFewReplicas after it was written
   */
  recordExport(environment: Environment, exported: ExportedUserGroups, by: ChangeBy): Promise<void>;

  /**
   * Lists the events of environments: the environments in the given order, and the events of each by their ids, the newest first.
   * An event that exists while the pages are read is on exactly one of them. New events may be on none. A page may have few items,
   * or none, even if more pages follow.
   *
   * @throws InvalidPageToken; AuditEventsExpired if the first event of the page was removed after the previous page was read
   */
  list(environments: readonly ListedEnvironment[], filter: AuditFilter, page: PageRequest): Promise<Page<AuditEvent>>;
}

/** The health checks of a store. A full or read-only store refuses changes, but answers reads. */
export const READY_KINDS = ["reads", "changes"] as const;

export type ReadyKind = (typeof READY_KINDS)[number];

/** The health checks of a store. */
export interface StoreProbe {
  /** Checks that the store answers reads, or accepts changes. @throws StoreUnavailable, TooFewReplicas */
  check(kind: ReadyKind): Promise<void>;
}

/** A limit within a time window, which starts with the first count. */
export interface RateLimit {
  /** The maximum count in a window. */
  readonly max: number;
  /** The length of a window, in whole seconds. */
  readonly windowSeconds: number;
}

/** The count of a key in the current window. */
export interface Count {
  /** The sum of all workers. */
  readonly total: number;
  /** The remaining time of the window, in milliseconds. */
  readonly resetMs: number;
}

/** Counts in windows, by key. */
export interface RateCounter {
  /** Adds to the count of a key. Rejects while the store cannot count. */
  add(key: string, amount: number): Promise<Count>;
}

/** A reached limit. */
export interface Limited {
  readonly limit: RateLimit;
  /** The time until the limit allows more, in milliseconds. */
  readonly retryAfterMs: number;
}
