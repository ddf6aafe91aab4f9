import type { EnvironmentTag } from "./environment.ts";

/** A JSON value, as `properties` holds it. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A JSON object, as `properties` is. */
export type JsonObject = { [key: string]: Json };

/** A user group as it is stored, with its current token. Times are milliseconds since 1970. */
export interface UserGroup {
  /** Internal id, from 1, below 2^53. */
  readonly teamId: number;
  readonly token: string;
  readonly name: string;
  readonly providedId: string;
  /** Schema id to data source. */
  readonly mapping: { readonly [schemaId: string]: string };
  /** Undefined: none were given. */
  readonly properties: JsonObject | undefined;
  readonly environmentTag: EnvironmentTag | undefined;
  /** Changes with every change of the group. */
  readonly etag: string;
  readonly createTime: number;
  readonly updateTime: number;
  readonly tokenCreateTime: number;
}

/** The group that a token stands for, as its viewer may see it: all but the token and what guards changes. */
export interface Viewer {
  readonly teamId: number;
  readonly name: string;
  readonly providedId: string;
  readonly mapping: { readonly [schemaId: string]: string };
  readonly properties: JsonObject | undefined;
  readonly environmentTag: EnvironmentTag | undefined;
  /** When the token ends, in milliseconds since 1970; undefined for the current token. */
  readonly tokenExpireTime: number | undefined;
}

/** What a new group is made of. */
export interface NewUserGroup {
  readonly providedId: string;
  readonly name: string;
  readonly mapping: { readonly [schemaId: string]: string };
  readonly properties: JsonObject | undefined;
}

/** A partial change: a key that is there is replaced whole, one that is absent is left alone. */
export interface UserGroupChange {
  readonly name?: string;
  readonly mapping?: { readonly [schemaId: string]: string };
  /** `null` clears. */
  readonly properties?: JsonObject | null;
}

/** Which group a rotation is for. */
export type RotationTarget =
  | { readonly by: "token"; readonly token: string }
  | { readonly by: "id"; readonly providedId: string };

/** A rotation of a group's token. */
export interface Rotation {
  readonly target: RotationTarget;
  /** How long the old token stays valid, in milliseconds; 0 ends it at once. */
  readonly graceMs: number;
  /**
   * The grace that the caller asked for, in milliseconds; undefined: none, so that `graceMs` is a default. A retry must
   * ask for the same, and the default may change between the two.
   */
  readonly askedGraceMs: number | undefined;
  /** Makes a retry safe: the same id within 24 hours gets the same token again. */
  readonly requestId: string | undefined;
}
