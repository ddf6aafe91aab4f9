import { hash } from "node:crypto";
import { InvalidPageToken } from "../../domain/errors.ts";
import type { PageRequest } from "../../domain/store.ts";

/** How many items a page has when the request does not say. */
const DEFAULT_PAGE_SIZE = 100;

/** The length of what a page token has of its list, in characters. */
const SCOPE_LENGTH = 12;

/** A list that pages are of. */
export interface PagedList {
  /** Whether a text may be a key of the list. */
  readonly isKey: (text: string) => boolean;
  /** What sets the list apart from others that have the same keys: its method, its environment, its filter. Default: nothing does. */
  readonly scope?: readonly string[];
}

/**
 * Reads which page is asked for (https://google.aip.dev/158). A page token is the key of the last item before the page,
 * behind a digest of the scope.
 *
 * @throws InvalidPageToken
 */
export function pageRequest(
  { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
  list: PagedList,
): PageRequest {
  const size = pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize;
  if (pageToken === "") return { after: "", size };
  const after = Buffer.from(pageToken, "base64url").toString().slice(scopeOf(list).length);
  if (!list.isKey(after) || nextPageToken(after, list) !== pageToken) throw new InvalidPageToken();
  return { after, size };
}

/** The page token of what follows a key; empty when nothing does. */
export function nextPageToken(next: string | undefined, list?: Pick<PagedList, "scope">): string {
  return next === undefined ? "" : Buffer.from(scopeOf(list) + next).toString("base64url");
}

function scopeOf({ scope }: Pick<PagedList, "scope"> = {}): string {
  return scope === undefined ? "" : hash("sha256", JSON.stringify(scope), "base64url").slice(0, SCOPE_LENGTH);
}
