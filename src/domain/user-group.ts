import type { EnvironmentTag } from "./environment.ts";

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A JSON object, such as `properties`. */
export type JsonObject = { [key: string]: Json };

/**
 * The maximum length of an id, in UTF-16 units: an id has at most 256 characters, and a character has at most two
 * units.
 */
export const MAX_ID_LENGTH = 512;

/** The fields of a group that callers set. Add a new field here first. */
export interface GroupFields {
  readonly name: string;
  /** The data source of each schema, by the id of the schema. */
  readonly mapping: { readonly [schemaId: string]: string };
  /** Undefined if none are set. */
  readonly properties: JsonObject | undefined;
  /** The time from which the group is suspended, in milliseconds since 1970. Undefined if the group does not expire. */
  readonly expireTime?: number | undefined;
}

/** The reason of the suspension of a group whose `expireTime` has passed. */
export const EXPIRED = "EXPIRED";

/** The suspension of a group. Times are in milliseconds since 1970. */
export interface Suspension {
  /** The reason, for operators. `EXPIRED` if the group has expired. */
  readonly reason: string;
  /** The message for the page. */
  readonly message: string;
  readonly suspendTime: number;
  /** The end of the suspension. Undefined: the suspension lasts until an operator resumes the group. */
  readonly until: number | undefined;
}

/** The values of a new suspension. */
export type NewSuspension = Omit<Suspension, "suspendTime">;

/** A stored user group with its current token. Times are in milliseconds since 1970. */
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
  /** Undefined unless the group is suspended. */
  readonly suspension: Suspension | undefined;
}

/** The group of a viewer, without the token and the etag. If the group is suspended, viewers must not get it. */
export interface Viewer
  extends GroupFields,
    Pick<UserGroup, "teamId" | "providedId" | "environmentTag" | "suspension"> {
  /** The expiry time of the presented token, in milliseconds since 1970. Undefined for the current token. */
  readonly tokenExpireTime: number | undefined;
  /** The same as in `ListedUserGroup`. */
  readonly lastResolveDay?: number | undefined;
}

/** The values of a new group. */
export interface NewUserGroup extends GroupFields {
  readonly providedId: string;
}

/**
 * A partial update. A present key replaces the whole field. A missing key leaves the field unchanged. `null` clears a
 * field that may be unset.
 */
export type UserGroupChange = {
  readonly [field in keyof GroupFields]?:
    | Exclude<GroupFields[field], undefined>
    | (undefined extends GroupFields[field] ? null : never);
};

/** The group to change, by its id or by its current token. */
export type UserGroupTarget =
  | { readonly by: "token"; readonly token: string }
  | { readonly by: "id"; readonly providedId: string };

/** A rotation of a group's token. */
export interface Rotation {
  readonly target: UserGroupTarget;
  /** The grace period of the former token, in milliseconds. 0 revokes it at once. */
  readonly graceMs: number;
  /**
   * The requested grace period, in milliseconds. Undefined if `graceMs` is the default. A retry must request the same grace period,
   * but the default may change in between.
   */
  readonly requestedGraceMs: number | undefined;
  /** The request id, which makes retries safe: within 24 hours, the same id creates only one token. */
  readonly requestId: string | undefined;
}

/** A user group in a list for operators. Times are in milliseconds since 1970. */
export interface ListedUserGroup
  extends Pick<
    UserGroup,
    | "teamId"
    | "providedId"
    | "name"
    | "etag"
    | "createTime"
    | "updateTime"
    | "tokenCreateTime"
    | "expireTime"
    | "suspension"
  > {
  /** The time of the last replacement of the token. Undefined if the group still has its first token. */
  readonly lastRotationTime: number | undefined;
  /** The end of the grace period of its former token. Undefined if that token is not valid. */
  readonly graceExpireTime: number | undefined;
  /** Whether its current token was imported from another system. */
  readonly hasForeignToken: boolean;
  /**
   * The last day, in UTC, on which a token or a session of the group was resolved, or a session was created. Counted in
   * days since 1970. The value may be some minutes old. Resolves are not noted while the store does not answer.
   * Undefined if no resolve is known.
   */
  readonly lastResolveDay?: number | undefined;
}

/** A user group for operators, without its token. */
export interface UserGroupInfo extends ListedUserGroup, GroupFields {}

/** A user group to import. */
export interface ImportedUserGroup extends NewUserGroup {
  /** Its token in the source system. Undefined: an existing group keeps its token, and a new group gets a new token. */
  readonly token: string | undefined;
  /** Suspends a group that is not suspended. Undefined: the import does not suspend the group. */
  readonly suspension?: Suspension | undefined;
}

/** The options of an import. */
export interface ImportOptions {
  readonly mode: ImportMode;
  /**
   * The time at which the groups were read from the source system, or earlier, in milliseconds since 1970. The import
   * uses this time as the creation time of imported tokens.
   */
  readonly snapshotTime: number;
  /** Whether to replace tokens that are younger than the snapshot. */
  readonly replaceNewerTokens: boolean;
  /** The grace period of a replaced token, in milliseconds. 0 revokes it at once. */
  readonly graceMs: number;
  /** Whether to return the outcomes without a change. */
  readonly validateOnly?: boolean;
}

/** The effect of an import on an existing, different group: `create-only` does not change it, `upsert` changes it. */
export type ImportMode = "create-only" | "upsert";
