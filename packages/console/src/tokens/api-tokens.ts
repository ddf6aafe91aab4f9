import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ApiToken } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import { timeText } from "../../../operator/src/times.ts";
import { countText } from "../../../operator/src/words.ts";

/** The permissions of each role. Each role also has the permissions of the roles that precede it in this list. */
export const ROLES: { readonly [role: string]: string } = {
  resolve: "resolve user group tokens and viewer sessions, and create sessions with a user group token",
  read: "also read user groups and their tokens, and create sessions with a group id",
  manage: "also create and change user groups. For back ends",
  admin: "also administer the environment",
};

function msOf(time: Timestamp | undefined, none: number): number {
  return time ? timestampMs(time) : none;
}

/** The sort orders of the list of API tokens. */
export const ORDERS = {
  expires: { words: "Soonest expiry first", of: ({ expireTime }: ApiToken) => msOf(expireTime, Number.MAX_VALUE) },
  unused: { words: "Never used, then least recently used", of: unusedSince },
  newest: { words: "Newest first", of: ({ createTime }: ApiToken) => -msOf(createTime, 0) },
} as const;

/**
 * Returns the sort key of the order `unused`. API tokens that were never used come first, the oldest first. The other
 * API tokens follow, the least recently used first.
 */
function unusedSince({ lastUseTime, createTime }: ApiToken): number {
  return lastUseTime ? timestampMs(lastUseTime) : msOf(createTime, 0) - Number.MAX_SAFE_INTEGER;
}

/** Sorts API tokens. @param order a key of `ORDERS`. Any other text selects the order `expires` */
export function inOrder(tokens: readonly ApiToken[], order: string): ApiToken[] {
  const { of } = Object.hasOwn(ORDERS, order) ? ORDERS[order as keyof typeof ORDERS] : ORDERS.expires;
  return [...tokens].sort((a, b) => of(a) - of(b) || (a.id < b.id ? -1 : 1));
}

/**
 * Summarizes API tokens. The text contains the number of API tokens, the API token that expires first, and the number
 * of unused API tokens.
 */
export function summaryOf(tokens: readonly ApiToken[]): string {
  const count = countText(tokens.length, "API token");
  const [first] = inOrder(tokens, "expires");
  const ends = first?.expireTime
    ? `the first expires at ${timeText(first.expireTime)}: ${first.displayName}`
    : "none expires";
  const neverUsed = tokens.filter(({ lastUseTime }) => !lastUseTime).length;
  return `${count}; ${ends}; ${neverUsed === 0 ? "all were used" : `never used: ${neverUsed}`}.`;
}
