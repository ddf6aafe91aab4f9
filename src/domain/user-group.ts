import type { EnvironmentTag } from "./environment.ts";

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A JSON object, such as `properties`. */
export type JsonObject = { [key: string]: Json };

/** The maximum length of an id, in UTF-16 units: it has at most 256 characters, of at most two units each. */
export const MAX_ID_LENGTH = 512;

/** The fields of a group that callers set. A new one begins here. */
export interface GroupFields {
  readonly name: string;
  /** Schema id to data source. */
  readonly mapping: { readonly [schemaId: string]: string };
  /** Undefined when none are set. */
  readonly properties: JsonObject | undefined;
}

/** A user group as it is stored, with its current token. Times are milliseconds since 1970. */
export interface UserGroup extends GroupFields {
  /** The internal id, from 1 to 2^53 - 1. */
  readonly teamId: number;
  readonly token: string;
  readonly providedId: string;
  readonly environmentTag: EnvironmentTag | undefined;
  /** Changes whenever the group changes. */
  readonly etag: string;
  readonly createTime: number;
  readonly updateTime: number;
  readonly tokenCreateTime: number;
}

/** What a viewer may see of its group: all but the token and the etag. */
export interface Viewer extends GroupFields, Pick<UserGroup, "teamId" | "providedId" | "environmentTag"> {
  /** When the token expires, in milliseconds since 1970; undefined for the current token. */
  readonly tokenExpireTime: number | undefined;
}

/** The values of a new group. */
export interface NewUserGroup extends GroupFields {
  readonly providedId: string;
}

/**
 * A partial update: a present key replaces the whole field; an absent key leaves it unchanged. `null` clears a field
 * that may be unset.
 */
export type UserGroupChange = {
  readonly [field in keyof GroupFields]?:
    | Exclude<GroupFields[field], undefined>
    | (undefined extends GroupFields[field] ? null : never);
};

/** Which group is changed: the one with an id, or the one with a current token. */
export type UserGroupTarget =
  | { readonly by: "token"; readonly token: string }
  | { readonly by: "id"; readonly providedId: string };

/** A rotation of a group's token. */
export interface Rotation {
  readonly target: UserGroupTarget;
  /** How long the old token stays valid, in milliseconds; 0 ends it at once. */
  readonly graceMs: number;
  /**
   * The grace that the caller requested, in milliseconds; undefined when `graceMs` is the server's default. A retry
   * must request the same grace, while the default may change in between.
   */
  readonly askedGraceMs: number | undefined;
  /** Makes retries safe: the same id makes one token in 24 hours. */
  readonly requestId: string | undefined;
}

/** What a list tells operators of a user group. Times are milliseconds since 1970. */
export interface ListedUserGroup
  extends Pick<UserGroup, "teamId" | "providedId" | "name" | "etag" | "createTime" | "updateTime" | "tokenCreateTime"> {
  /** When its token was last replaced; undefined when it has its first one. */
  readonly lastRotationTime: number | undefined;
  /** Until when the token before the current one is valid; undefined when it is not. */
  readonly graceExpireTime: number | undefined;
  /** Whether its current token is one of another system. */
  readonly hasForeignToken: boolean;
}

/** What operators may see of a user group: everything but its token. */
export interface UserGroupInfo extends ListedUserGroup, GroupFields {}

/** A user group as it is to be after an import. */
export interface ImportedUserGroup extends NewUserGroup {
  /** The token that it has where it comes from; undefined: it keeps its own, or gets one when it is new. */
  readonly token: string | undefined;
}

/** How groups are imported. */
export interface ImportOptions {
  readonly mode: ImportMode;
  /**
   * When the groups were read where they come from, or earlier, in milliseconds since 1970. Their tokens date from this
   * time.
   */
  readonly snapshotTime: number;
  /** Whether tokens that are younger than the snapshot are replaced, too. */
  readonly replaceNewerTokens: boolean;
  /** How long a token that is replaced stays valid, in milliseconds; 0 ends it at once. */
  readonly graceMs: number;
  /** Whether to tell only what an import would do. */
  readonly validateOnly?: boolean;
}

/** What an import does with a group that exists and differs from the given one: leave it alone, or change it. */
export type ImportMode = "create-only" | "upsert";
