import type { DomainError } from "./errors.ts";
import type { UserGroup } from "./user-group.ts";

/** What a list tells operators of a user group. Times are milliseconds since 1970. */
export interface ListedUserGroup
  extends Pick<UserGroup, "teamId" | "providedId" | "name" | "etag" | "createTime" | "updateTime" | "tokenCreateTime"> {
  /** When its token was last replaced; undefined when it has its first one. */
  readonly lastRotationTime: number | undefined;
  /** Until when the token before the current one is valid; undefined when it is not. */
  readonly graceExpireTime: number | undefined;
  /** Whether its current token was imported, and names no partition of the environment, or another one. */
  readonly hasForeignToken: boolean;
}

/** What operators may see of a user group: everything but its token. */
export interface UserGroupInfo extends ListedUserGroup, Pick<UserGroup, "mapping" | "properties"> {}

/** A user group as it is to be after an import. */
export interface ImportedUserGroup extends Pick<UserGroup, "providedId" | "name" | "mapping" | "properties"> {
  /** The token that it has where it comes from; undefined: it keeps its own, or gets one when it is new. */
  readonly token: string | undefined;
}

/** How groups are imported. */
export interface ImportOptions {
  readonly mode: ImportMode;
  /**
   * Of when the groups are that are imported, in milliseconds since 1970: not after they were read where they come from.
   * Their tokens date from it.
   */
  readonly snapshotTime: number;
  /** Whether also a token that is younger than that is replaced. */
  readonly replaceNewerTokens: boolean;
  /** How long a token that is replaced stays valid, in milliseconds; 0 ends it at once. */
  readonly graceMs: number;
}

/** What an import does with a group that exists and is not as it is given: leave it alone, or make it so. */
export type ImportMode = "create-only" | "upsert";

/** What became of a user group that was to be imported. `token-newer`: it is as it was given, but for a token that is younger. */
export type ImportOutcome =
  | { readonly outcome: "created" | "updated" | "unchanged" | "token-newer" }
  | { readonly outcome: "failed"; readonly error: DomainError };
