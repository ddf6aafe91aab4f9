import { hash } from "node:crypto";
import { InvalidPageToken } from "../../domain/errors.ts";
import type { PageRequest } from "../../domain/store.ts";

/** How many items a page has when the request does not say. */
const DEFAULT_PAGE_SIZE = 100;

/** How many characters of the digest of its list's scope a page token has. */
const SCOPE_LENGTH = 12;

/** Which page of a list a request asks for. */
export interface PageOf {
  readonly pageSize: number;
  readonly pageToken: string;
}

/** What tells a list from others with the same keys: its method, its environment, its filter. */
export type Scope = readonly string[];

/**
 * Reads which page is asked for (https://google.aip.dev/158). A page token is the key of the last item before the page,
 * behind a digest of the scope of the list where it has one.
 *
 * @param isKey whether a text may be a key of the list
 * @throws InvalidPageToken
 */
export function pageRequest(
  { pageSize, pageToken }: PageOf,
  isKey: (text: string) => boolean,
  scope?: Scope,
): PageRequest {
  const size = pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize;
  if (pageToken === "") return { after: "", size };
  const after = Buffer.from(pageToken, "base64url").toString().slice(digestOf(scope).length);
  if (!isKey(after) || nextPageToken(after, scope) !== pageToken) throw new InvalidPageToken();
  return { after, size };
}

/** The page token of what follows a key; empty when nothing does. */
export function nextPageToken(next: string | undefined, scope?: Scope): string {
  return next === undefined ? "" : Buffer.from(digestOf(scope) + next).toString("base64url");
}

function digestOf(scope: Scope | undefined): string {
  return scope === undefined ? "" : hash("sha256", JSON.stringify(scope), "base64url").slice(0, SCOPE_LENGTH);
}
