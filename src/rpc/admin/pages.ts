import { InvalidPageToken } from "../../domain/errors.ts";
import type { PageRequest } from "../../domain/store.ts";

/** How many items a page has when the request does not say. */
const DEFAULT_PAGE_SIZE = 100;

/**
 * Reads which page is asked for (https://google.aip.dev/158). A page token is the key of the last item before the page.
 *
 * @param isKey whether a text may be a key of the list
 * @throws InvalidPageToken
 */
export function pageRequest(
  { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
  isKey: (text: string) => boolean,
): PageRequest {
  const size = pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize;
  if (pageToken === "") return { after: "", size };
  const after = Buffer.from(pageToken, "base64url").toString();
  if (!isKey(after) || nextPageToken(after) !== pageToken) throw new InvalidPageToken();
  return { after, size };
}

/** The page token of what follows a key; empty when nothing does. */
export function nextPageToken(next: string | undefined): string {
  return next === undefined ? "" : Buffer.from(next).toString("base64url");
}
