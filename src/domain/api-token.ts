import { hash } from "node:crypto";
import type { Environment } from "./environment.ts";
import { randomBase62 } from "./token.ts";

/** The roles of API tokens. Each may do what those before it may, except that `read` does not create groups. */
const ROLES = ["resolve", "read", "manage", "admin"] as const;

/** What the bearer of an API token may do in its environment. */
export type Role = (typeof ROLES)[number];

/** An issued API token, without the token itself, which is not stored. Times are milliseconds since 1970. */
export interface ApiToken {
  /** Not secret. */
  readonly id: string;
  readonly displayName: string;
  readonly role: Role;
  readonly createTime: number;
  /** Undefined: it lasts until it is revoked. */
  readonly expireTime: number | undefined;
  /** The id of the principal that created it. */
  readonly creator: string;
  /** The id of the principal that last rotated it; undefined: none did. */
  readonly rotator: string | undefined;
  /** When its current text was made. */
  readonly tokenCreateTime: number;
  /** Until when a text before the current one is valid; undefined: none is. */
  readonly graceExpireTime: number | undefined;
  /** When any of its texts was last used; undefined: no use is known. */
  readonly lastUseTime: number | undefined;
}

/** The values of a new API token. */
export type NewApiToken = Pick<ApiToken, "displayName" | "role" | "expireTime" | "creator">;

/** A change of an API token: the values that it gets; those that are left out stay. */
export interface ApiTokenChange {
  readonly displayName?: string;
  /** Null: it does not expire. */
  readonly expireTime?: number | null;
}

/** How an API token is rotated. */
export interface ApiTokenRotation {
  /** How long the text before stays valid, in milliseconds; 0: it ends at once. */
  readonly graceMs: number;
  /** The id of the principal that rotates it. */
  readonly rotator: string;
  /** The token must not last longer than that; undefined: it may last as long as it likes. */
  readonly notBeyond: number | undefined;
}

/** Which API tokens to list; all that is given must hold. */
export interface ApiTokenFilter {
  readonly creator?: string | undefined;
  readonly role?: Role | undefined;
  /** Those last used at this time or later, in milliseconds since 1970. */
  readonly usedSince?: number | undefined;
  /** Those last used before this time, or never. */
  readonly unusedSince?: number | undefined;
}

/** The most API tokens that an environment has. */
export const MAX_API_TOKENS = 1000;

/** How many replaced texts an API token has at most that are on their grace. */
export const MAX_GRACED = 2;

/** An issued API token that is valid, with what authentication needs. */
export interface ValidApiToken {
  /** As the text that was looked for has it: its end, its last use. */
  readonly apiToken: ApiToken;
  /** Whether a rotation replaced the text, so that it is on its grace. */
  readonly isReplaced: boolean;
  readonly environment: Environment;
  /** How long it remains valid, in milliseconds; Infinity when it does not expire. */
  readonly expiresInMs: number;
  /** How long ago it was last used, in milliseconds; Infinity when no use is known. */
  readonly unusedForMs: number;
}

/** The length of an id: about 95 bits, so that no two are equal. */
const ID_LENGTH = 16;

/** Generates the id of an API token. */
export function newApiTokenId(): string {
  return randomBase62(ID_LENGTH);
}

/** Whether a text may be the id of an API token. */
export function isApiTokenId(text: string): boolean {
  return /^[0-9A-Za-z]{16}$/.test(text);
}

/** SHA-256 of an API token in base64url: all that is kept of it. */
export function apiTokenDigest(token: string): string {
  return hash("sha256", token, "base64url");
}

/** Whether a text is the name of a role. */
export function isRole(text: string | undefined): text is Role {
  return (ROLES as readonly (string | undefined)[]).includes(text);
}
