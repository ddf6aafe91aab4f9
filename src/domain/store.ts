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

/** How long a call to the store takes at most, in milliseconds: no `REDIS_TIMEOUT` is longer. */
export const MAX_STORE_CALL_MS = 60_000;

/**
 * The contract of a user group store. Every method throws `StoreUnavailable` when the store does not answer in time,
 * and `RecordUnreadable` when a stored record cannot be read. No method answers from a cache. A change is never made
 * after its caller was told that it failed. What makes a change writes one audit event in the same atomic step, and
 * none when nothing changes; `by` says who makes it.
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

  /** Lists groups likewise, with all they hold. A page has at most about 1 MiB of it, but at least one group. */
  export(environment: Environment, range: UserGroupRange): Promise<ExportedPage>;

  /** Returns a group without its token, and changes nothing. @throws UserGroupNotFound */
  lookUp(environment: Environment, providedId: string): Promise<UserGroupInfo>;

  /**
   * Deletes a group atomically, and with it all that leads to it. Its tokens end at once. A group that is created under
   * its id later has another team id and another token, and no request id of a rotation before is answered with it.
   *
   * @param etag unless it is empty, the group is deleted only if it has this etag
   * @throws TokenNotFound when the token is not a group's current one, UserGroupNotFound, EtagMismatch; TooFewReplicas
   *   after the change
   */
  delete(environment: Environment, target: UserGroupTarget, etag: string, by: ChangeBy): Promise<void>;

  /**
   * Revokes the tokens of a group atomically, also one in its grace period, and gives it a new one.
   *
   * @param revocation `graceMs`: how long the current token stays valid, in milliseconds; 0 revokes it at once. `requestId`:
   *   unless it is empty, a retry within 24 hours changes nothing
   * @throws UserGroupNotFound, RequestIdReused; TooFewReplicas after the change
   */
  revokeTokens(
    environment: Environment,
    providedId: string,
    revocation: { readonly graceMs: number; readonly requestId: string },
    by: ChangeBy,
  ): Promise<UserGroupInfo>;

  /**
   * Ends atomically the viewer sessions that were made so far of a group, or of one viewer.
   *
   * @throws UserGroupNotFound, TooManyEndedViewers, and nothing has changed; TooFewReplicas after the change
   */
  endSessions(environment: Environment, whose: SessionOwner, by: ChangeBy): Promise<void>;

  /**
   * Writes groups as given, each atomically and independently of the others; the outcomes are in their order. A group that
   * already is as given is left alone, so that an import can be repeated. A group whose token is younger than the snapshot
   * keeps it; any other group gets the given token, which then dates from the snapshot. No token ever belongs to two groups:
   * a token that another group has, also in its grace period, is refused.
   *
   * @param groups no id and no token may occur twice among them
   */
  import(
    environment: Environment,
    groups: readonly ImportedUserGroup[],
    options: ImportOptions,
    by: ChangeBy,
  ): Promise<readonly ImportOutcome[]>;
}

/**
 * What became of a user group in an import, and the names of its fields that have new values. `token-newer`: its token is
 * younger than the import and stays; all else is now as given.
 */
export type ImportOutcome =
  | {
      readonly outcome: "created" | "updated" | "unchanged" | "token-newer";
      readonly changedFields: readonly string[];
    }
  | { readonly outcome: "failed"; readonly error: DomainError };

/** A page of groups with all they hold. */
interface ExportedPage extends Page<UserGroup> {
  /** A time before any of them was read, in milliseconds since 1970 by the store's clock: whatever changes later is younger. */
  readonly snapshotTime: number;
}

/** The contract of an environment store. It throws what a user group store throws, and writes audit events as it does. */
export interface EnvironmentStore {
  /** Returns the environment with this name, or creates it. @throws EnvironmentNotFound when it was deleted */
  ensureEnvironment(name: EnvironmentName, by: ChangeBy): Promise<Environment>;

  /**
   * Creates an environment. If one of the same name was deleted, the new one has another number, and nothing of the old one. A
   * creation that was interrupted is completed by the next call that looks for the environment.
   *
   * @throws EnvironmentExists, EnvironmentBeingDeleted; TooFewReplicas after the change
   */
  create(name: EnvironmentName, by: ChangeBy): Promise<ListedEnvironment>;

  /** Returns an environment. @throws EnvironmentNotFound, also when it is being deleted */
  find(name: EnvironmentName): Promise<Environment>;

  /** Returns all environments that have or had this name, also deleted ones, the latest first. @throws EnvironmentNotFound */
  findAll(name: EnvironmentName): Promise<readonly ListedEnvironment[]>;

  /** Returns an environment, also one that is being deleted. @throws EnvironmentNotFound */
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
   * Deletes an environment that is empty or, by force, one with user groups. A call deletes a limited number of groups and
   * has to be repeated until none is left; a call that failed or was interrupted may be repeated as well. From the first
   * call on, nobody finds the environment, nothing is changed in it, and neither its API tokens nor the tokens of its groups
   * are valid. Its audit trail stays.
   *
   * @returns how many groups are left; 0: it is deleted
   * @throws EnvironmentNotFound when there is none, or it is deleted already; EnvironmentNotEmpty, and nothing has changed
   */
  delete(name: EnvironmentName, force: boolean, by: ChangeBy): Promise<number>;
}

/** The contract of a store of audit events. It throws what a user group store throws. */
export interface AuditStore {
  /**
   * Writes the event of an export of tokens into the audit trail of the environment.
   *
   * @throws TooFewReplicas after it was written
   */
  recordExport(environment: Environment, exported: ExportedUserGroups, by: ChangeBy): Promise<void>;

  /**
   * Lists events of environments in their order, of each the newest first, in order of their ids. An event that exists while
   * the pages are read is on exactly one of them; those that come may be on none. A page may have few items, or none, though
   * more pages follow.
   *
   * @throws InvalidPageToken; AuditEventsExpired if the first event of the page was removed since the page before was read
   */
  list(environments: readonly ListedEnvironment[], filter: AuditFilter, page: PageRequest): Promise<Page<AuditEvent>>;
}

/** What a store is checked for. A store that is full or read-only refuses changes, and still answers reads. */
export const READY_KINDS = ["reads", "changes"] as const;

export type ReadyKind = (typeof READY_KINDS)[number];

/** Checks whether a store is usable. */
export interface StoreProbe {
  /** Checks that the store answers reads, or accepts changes. @throws StoreUnavailable, TooFewReplicas */
  check(kind: ReadyKind): Promise<void>;
}

/** How much is allowed in a window of time, which begins with the first count. */
export interface RateLimit {
  /** How many times in a window. */
  readonly max: number;
  /** How long a window is, in whole seconds. */
  readonly windowSeconds: number;
}

/** What is counted under a key in the current window. */
export interface Count {
  /** By all workers together. */
  readonly total: number;
  /** When the window ends, in milliseconds from now. */
  readonly resetMs: number;
}

/** Counts under keys, in windows. */
export interface RateCounter {
  /** Adds to the count of a key. Rejects while the store cannot count. */
  add(key: string, amount: number): Promise<Count>;
}

/** Why something is not done now: a limit is reached. */
export interface Limited {
  readonly limit: RateLimit;
  /** When there is room again, in milliseconds from now. */
  readonly retryAfterMs: number;
}
