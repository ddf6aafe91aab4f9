export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type JsonObject = { [key: string]: Json };

/** The maximum length of an id, in UTF-16 units. An id has at most 256 characters, of at most two units each. */
export const MAX_ID_LENGTH = 512;

/** The fields of a group that callers set. Add new fields to this type first. */
export interface GroupFields {
  readonly name: string;
  /** Maps schema ids to data sources. */
  readonly mapping: { readonly [schemaId: string]: string };
  readonly properties: JsonObject | undefined;
  /**
   * The time at which the group expires and is suspended, in milliseconds since 1970. Undefined if the group does not
   * expire.
   */
  readonly expireTime?: number | undefined;
}

/** The suspension reason of a group whose `expireTime` has passed. */
export const EXPIRED = "EXPIRED";

export interface Suspension {
  /** The reason that operators see, or `EXPIRED`. */
  readonly reason: string;
  /** The message for viewers. */
  readonly message: string;
  readonly suspendTime: number;
  /** The end of the suspension. If undefined, the suspension lasts until an operator resumes the group. */
  readonly until: number | undefined;
}

export type NewSuspension = Omit<Suspension, "suspendTime">;

/** A stored user group with its current token. Times are in milliseconds since 1970. */
export interface UserGroup extends GroupFields {
  /** The internal id, from 1 to 2^53 - 1. */
  readonly teamId: number;
  readonly token: string;
  readonly providedId: string;
  /** The version of the group, which changes with every change of the group. */
  readonly etag: string;
  readonly createTime: number;
  readonly updateTime: number;
  readonly tokenCreateTime: number;
  readonly suspension: Suspension | undefined;
}

/** The group of a viewer, without the token and the etag. If the group is suspended, viewers must not see its data. */
export interface Viewer extends GroupFields, Pick<UserGroup, "teamId" | "providedId" | "suspension"> {
  /**
   * The expiry time of the presented token, in milliseconds since 1970. Undefined if the presented token is the current
   * token.
   */
  readonly tokenExpireTime: number | undefined;
  readonly lastResolveDay?: number | undefined;
}

export interface NewUserGroup extends GroupFields {
  readonly providedId: string;
}

/**
 * A partial update. A value replaces the whole field, `null` clears an optional field, and an omitted field does not
 * change.
 */
export type UserGroupChange = {
  readonly [field in keyof GroupFields]?:
    | Exclude<GroupFields[field], undefined>
    | (undefined extends GroupFields[field] ? null : never);
};

export type UserGroupTarget =
  | { readonly by: "token"; readonly token: string }
  | { readonly by: "id"; readonly providedId: string };

export interface Rotation {
  readonly target: UserGroupTarget;
  /** The grace period of the former token, in milliseconds. 0 revokes this token immediately. */
  readonly graceMs: number;
  /**
   * The grace period that the caller requested, in milliseconds. If undefined, the caller requested no grace period,
   * and `graceMs` is the default of the RPC. The store recognizes a retry by this value and not by `graceMs`, because
   * the default can change between the first call and the retry.
   */
  readonly requestedGraceMs: number | undefined;
  /** The request id, if the caller sent one. Within 24 hours, calls with the same id create only one token. */
  readonly requestId: string | undefined;
}

/**
 * A user group for operators, without its token. Times are in milliseconds since 1970. In a list, `mapping` and
 * `properties` are undefined.
 */
export interface UserGroupInfo
  extends Omit<UserGroup, "token" | "mapping" | "properties">,
    Partial<Pick<GroupFields, "mapping" | "properties">> {
  /** The time of the last replacement of the token. Undefined if the token has never been replaced. */
  readonly lastRotationTime: number | undefined;
  /** The end of the grace period of the replaced token. Undefined if no replaced token is valid. */
  readonly graceExpireTime: number | undefined;
  /** Whether the current token was imported from another system. */
  readonly hasForeignToken: boolean;
  /**
   * The day of the last call that resolved a token or session, or created a session, in days since 1970 (UTC). The
   * value may be some minutes old. If Redis did not answer, a call may be missing. Undefined if no call is known.
   */
  readonly lastResolveDay?: number | undefined;
}

export interface ImportedUserGroup extends NewUserGroup {
  /**
   * The token in the source system. If undefined, an existing group keeps its token, and a new group gets a generated
   * token.
   */
  readonly token: string | undefined;
  /**
   * If the group is not suspended, the import sets this suspension. If undefined, the import does not suspend the
   * group.
   */
  readonly suspension?: Suspension | undefined;
}

export interface ImportOptions {
  readonly mode: ImportMode;
  /**
   * The time at which the groups were read from the source system, or an earlier time, in milliseconds since 1970. This
   * time becomes the creation time of imported tokens. But an imported token that replaces a younger token gets the
   * creation time of the younger token.
   */
  readonly snapshotTime: number;
  /** Whether imported tokens also replace tokens that are younger than `snapshotTime`. */
  readonly replaceNewerTokens: boolean;
  /** The grace period of a replaced token, in milliseconds. 0 revokes this token immediately. */
  readonly graceMs: number;
  /** Whether the import only returns the outcomes, and changes nothing. */
  readonly validateOnly?: boolean;
}

/** If a group exists with other values, `create-only` refuses the group, and `upsert` replaces the values. */
export type ImportMode = "create-only" | "upsert";
