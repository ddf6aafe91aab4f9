import type { DomainError } from "./errors.ts";
import type { UserGroup } from "./user-group.ts";

/** What a list tells operators of a user group. Times are milliseconds since 1970. */
export interface ListedUserGroup
  extends Pick<UserGroup, "teamId" | "providedId" | "name" | "etag" | "createTime" | "updateTime" | "tokenCreateTime"> {
  /** When its token was last replaced; undefined when it has its first one. */
  readonly lastRotationTime: number | undefined;
  /** Until when the token before the current one is valid; undefined when it is not. */
  readonly graceExpireTime: number | undefined;
  /** Whether its current token has the shape of another system's. */
  readonly hasForeignToken: boolean;
}

/** What operators may see of a user group: everything but its token. */
export interface UserGroupInfo extends ListedUserGroup, Pick<UserGroup, "mapping" | "properties"> {}

/** A user group as it is to be after an import. */
export interface ImportedUserGroup extends Pick<UserGroup, "providedId" | "name" | "mapping" | "properties"> {
  /** The token that it has in another system; undefined: it keeps its own, or gets one when it is new. */
  readonly token: string | undefined;
}

/** What an import does with a group that exists and is not as it is given: leave it alone, or make it so. */
export type ImportMode = "create-only" | "upsert";

/** What became of a user group that was to be imported. */
export type ImportOutcome =
  | { readonly outcome: "created" | "updated" | "unchanged" }
  | { readonly outcome: "failed"; readonly error: DomainError };
