import type { AuditEvent, AuditFilter, ChangeBy, ExportedUserGroups } from "./audit.ts";
import type { Environment, EnvironmentName, ListedEnvironment } from "./environment.ts";
import type { DomainError } from "./errors.ts";
import type { EventPage, EventStart } from "./events.ts";
import type { Page, PageRequest } from "./page.ts";
import type {
  ImportedUserGroup,
  ImportOptions,
  ListedUserGroup,
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

/** The maximum duration of a call to the store, in milliseconds, which is the maximum of `REDIS_TIMEOUT`. */
export const MAX_STORE_CALL_MS = 60_000;

/**
 * The contract of a user group store. Every method throws `StoreUnavailable` when the store does not answer in time,
 * and `RecordUnreadable` when a stored record cannot be read. No method answers from a cache. The store never makes a
 * change after its call has failed. Every change writes one audit event in the same atomic step. A call that changes
 * nothing writes no event. `by` is the author of the change.
 */
export interface UserGroupStore {
  /**
   * Returns the group with the id, and changes nothing.
   *
   * @throws UserGroupNotFound
   */
  get(environment: Environment, providedId: string): Promise<UserGroup>;

  /**
   * Returns the group with the id, or creates it. If several callers create a group at the same time, all get the same
   * group. An existing group does not change. The team id is unique.
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
   * @param etag if it is not empty, the group must have this etag
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
   * Replaces the token of a group atomically. If several callers rotate the same token at the same time, one succeeds. The former
   * token is revoked at once, or expires after its grace period. A token that is already in its grace period is revoked at once.
   * With a request id, a retry within 24 hours returns the current group with the token of the first call, and writes no event.
   *
   * @throws TokenNotFound if no group has this current token; UserGroupNotFound, RequestIdReused; TokenReplaced if the token of a
   *   retried call was replaced; TooFewReplicas after the change
   */
  rotate(environment: Environment, rotation: Rotation, by: ChangeBy): Promise<UserGroup>;

  /**
   * Returns the group of a current token, or of a token in its grace period, even if it is suspended.
   *
   * @throws TokenNotFound
   */
  resolve(environment: Environment, token: string): Promise<Viewer>;
}

/** A range of user groups to list. */
export interface UserGroupRange extends PageRequest {
  /** The prefix of their ids. `""` for all groups. */
  readonly prefix: string;
}

/** A range of user groups to list, with a search by name. */
export interface UserGroupSearch extends UserGroupRange {
  /** A part of their names. The case of ASCII letters is ignored. `""` for all groups. */
  readonly nameContains: string;
}

/**
 * The contract of the administration of user groups. The store throws the errors of a user group store, and writes
 * audit events in the same way.
 */
export interface UserGroupAdminStore {
  /**
   * Lists groups in the order of the UTF-8 bytes of their ids, which are the keys of the pages. A group that exists
   * while the pages are read is on exactly one page. A page of a search by name may have few or no items, even if more
   * pages follow.
   */
  list(environment: Environment, search: UserGroupSearch): Promise<Page<ListedUserGroup>>;

  /** Lists groups with all their values, in the same order. A page has at most about 1 MiB, but at least one group. */
  export(environment: Environment, range: UserGroupRange): Promise<ExportedPage>;

  /** Returns a group without its token, and changes nothing. @throws UserGroupNotFound */
  lookUp(environment: Environment, providedId: string): Promise<UserGroupInfo>;

  /**
   * Deletes a group atomically. Its tokens are revoked at once. A later group with the same id has another team id and
   * another token. A retry with the request id of an earlier rotation never returns the new token.
   *
   * @param etag if it is not empty, the group must have this etag
   * @throws TokenNotFound if no group has this current token; UserGroupNotFound, EtagMismatch; TooFewReplicas after the change
   */
  delete(environment: Environment, target: UserGroupTarget, etag: string, by: ChangeBy): Promise<void>;

  /**
   * Suspends a group, or changes its suspension, atomically. All later calls see it. A group that is already suspended
   * keeps its `suspendTime`. A call with an equal suspension changes nothing.
   *
   * @throws UserGroupNotFound; TooFewReplicas after the change
   */
  suspend(
    environment: Environment,
    providedId: string,
    suspension: NewSuspension,
    by: ChangeBy,
  ): Promise<UserGroupInfo>;

  /**
   * Ends the suspension of a group atomically. A group that is not suspended does not change.
   *
   * @throws UserGroupNotFound; UserGroupExpired without a change; TooFewReplicas after the change
   */
  resume(environment: Environment, providedId: string, by: ChangeBy): Promise<UserGroupInfo>;

  /**
   * Revokes the tokens of a group atomically, including a token in its grace period, and creates a new token.
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
   * Imports groups, each atomically and independently of the others. The outcomes have the order of the groups. A group
   * that already has the imported values does not change, so an import can be repeated. A group keeps a token that is
   * younger than the snapshot. Otherwise it gets the imported token, with the time of the snapshot as its creation
   * time. A token never belongs to two groups: the import refuses a token of another group, even in its grace period. A
   * suspended group keeps its suspension and its `expireTime`.
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
 * The outcome of a group in an import, and the names of its changed fields. `token-newer`: the group kept its token,
 * because that token is younger than the snapshot. The group has all other imported values. `suspended`: the group is
 * suspended and stays suspended, and its suspension or `expireTime` differs from the import. If the token of the group
 * is younger than the snapshot, the group also kept its token.
 */
export type ImportOutcome =
  | {
      readonly outcome: "created" | "updated" | "unchanged" | "token-newer" | "suspended";
      readonly changedFields: readonly string[];
    }
  | { readonly outcome: "failed"; readonly error: DomainError };

interface ExportedPage extends Page<UserGroup> {
  /** A time before the page was read, in milliseconds since 1970 by the store's clock. Later changes are younger. */
  readonly snapshotTime: number;
}

/**
 * The contract of an environment store. The store throws the errors of a user group store, and writes audit events in
 * the same way.
 */
export interface EnvironmentStore {
  /** Returns the environment with this name, or creates it. @throws EnvironmentNotFound if it was deleted */
  ensureEnvironment(name: EnvironmentName, by: ChangeBy): Promise<Environment>;

  /**
   * Creates an environment. If an environment with the same name was deleted, the new environment has another number
   * and none of the old data. The next look-up of the environment completes an interrupted creation.
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
   * Lists the environments in order of their paths (`environmentPath`). An environment that exists while the pages are
   * read is on exactly one page. The keys of the pages are the path and the number, in the form that `isEnvironmentKey`
   * accepts.
   */
  list(page: PageRequest): Promise<Page<ListedEnvironment>>;

  /**
   * Deletes an environment. If it has user groups, the call needs `force`. A call deletes a limited number of groups.
   * Repeat the call until no group is left, and after an error. After the first call, look-ups do not find the
   * environment, changes in the environment fail, and its API tokens and user group tokens are invalid. Its audit trail
   * stays. Further calls need no `force`.
   *
   * @returns the number of remaining groups. 0 if the environment is deleted
   * @throws EnvironmentNotFound if it does not exist or is already deleted; EnvironmentNotEmpty without a change
   */
  delete(name: EnvironmentName, force: boolean, by: ChangeBy): Promise<number>;
}

/** Notes of the last resolves of groups (`ListedUserGroup.lastResolveDay`). */
export interface LastResolveNotes {
  /** Notes that a viewer was resolved now. The store writes the note later, in the background. */
  note(environment: Environment, viewer: Viewer): void;
}

/** The contract of a store of audit events. The store throws the errors of a user group store. */
export interface AuditStore {
  /**
   * Writes the event of an export of tokens into the audit trail of the environment.
   *
   * @throws TooFewReplicas after the event was written
   */
  recordExport(environment: Environment, exported: ExportedUserGroups, by: ChangeBy): Promise<void>;

  /**
   * Lists the events of environments: the environments in the given order, and the events of each by their ids, the
   * newest first. An event that exists while the pages are read is on exactly one page. New events may be on no page. A
   * page may have few or no items, even if more pages follow.
   *
   * @throws InvalidPageToken; AuditEventsExpired if the first event of the page was removed after the previous page was read
   */
  list(environments: readonly ListedEnvironment[], filter: AuditFilter, page: PageRequest): Promise<Page<AuditEvent>>;
}

/**
 * The contract of the feed of events, which are the events of the audit trail. The feed throws the errors of a user
 * group store.
 */
export interface EventStore {
  /**
   * Reads up to `size` events of an environment in their order. Events of later changes have higher ids, so a reader
   * that continues at `next` misses no event. A page may have fewer events even if more events follow. This takes one
   * round trip, and writes nothing.
   *
   * @throws EventCursorExpired if events after the position were removed or lost; EnvironmentNotFound if it is deleted
   */
  readEvents(environment: Environment, start: EventStart, size: number): Promise<EventPage>;
}

/** The kinds of health checks. A full or read-only store refuses changes, but answers reads. */
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
  /** The sum of the counts of all workers. */
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
