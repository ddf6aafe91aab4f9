import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { LookupApiTokenResponse_Source as Source } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type ApiToken, Role } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import { countText, timeText } from "../words.ts";

/** The roles of API tokens, as people write them, and what each may do. */
export const ROLES = {
  resolve: { value: Role.RESOLVE, may: "resolve user group tokens and viewer sessions" },
  read: { value: Role.READ, may: "also read user groups and their tokens" },
  manage: { value: Role.MANAGE, may: "also create and change user groups and viewer sessions. For back ends" },
  admin: { value: Role.ADMIN, may: "also administer its environment" },
} as const;

/** The name of a role; a dash for what is no role of API tokens. */
export function roleText(role: Role): string {
  return Object.entries(ROLES).find(([, { value }]) => value === role)?.[0] ?? "–";
}

/** The value of a role by its name; unspecified for any other text. */
export function roleOf(name: string): Role {
  return Object.entries(ROLES).find(([each]) => each === name)?.[1].value ?? Role.UNSPECIFIED;
}

/** Where a credential comes from. */
export const SOURCES: { readonly [source in Source]: string } = {
  [Source.UNSPECIFIED]: "unknown",
  [Source.ISSUED]: "issued",
  [Source.API_TOKENS]: "the setting API_TOKENS",
  [Source.ADMIN_TOKEN]: "the setting ADMIN_TOKEN",
};

/** In milliseconds; `none` where there is no time. */
function msOf(time: Timestamp | undefined, none: number): number {
  return time ? timestampMs(time) : none;
}

/** The orders in which API tokens can be listed. */
export const ORDERS = {
  expires: { words: "First to expire", of: ({ expireTime }: ApiToken) => msOf(expireTime, Number.MAX_VALUE) },
  unused: { words: "Never used, then least recently used", of: unusedSince },
  newest: { words: "Newest first", of: ({ createTime }: ApiToken) => -msOf(createTime, 0) },
} as const;

/** Sorts API tokens that were never used first, and among them the oldest. */
function unusedSince({ lastUseTime, createTime }: ApiToken): number {
  return lastUseTime ? timestampMs(lastUseTime) : msOf(createTime, 0) - Number.MAX_SAFE_INTEGER;
}

/** Sorts API tokens. @param order one of `ORDERS`; any other text: the first to expire */
export function inOrder(tokens: readonly ApiToken[], order: string): ApiToken[] {
  const { of } = Object.hasOwn(ORDERS, order) ? ORDERS[order as keyof typeof ORDERS] : ORDERS.expires;
  return [...tokens].sort((a, b) => of(a) - of(b) || (a.id < b.id ? -1 : 1));
}

/** Says how many there are, which of them expires first, and how many were never used. */
export function summaryOf(tokens: readonly ApiToken[]): string {
  const count = countText(tokens.length, "API token");
  const [first] = inOrder(tokens, "expires");
  const ends = first?.expireTime
    ? `the first expires at ${timeText(first.expireTime)}: ${first.displayName}`
    : "none expires";
  const neverUsed = tokens.filter(({ lastUseTime }) => !lastUseTime).length;
  return `${count}; ${ends}; ${neverUsed === 0 ? "all were used" : `${neverUsed} of them never used`}.`;
}
