import type { ListEnvironmentsResponse } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { Environment } from "../../../gen/usergroup/admin/v1/environment_pb.ts";

/** A page of a list of the API (https://google.aip.dev/158). */
export interface Page<T> {
  readonly items: readonly T[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/** Maximum page size of the service. */
export const MAX_PAGE_SIZE = 1000;

/**
 * Reads the pages of a list. Requests the next page only if the caller continues the iteration.
 *
 * @param limit the maximum number of items. If undefined, reads all items
 */
export async function* pagesOf<T>(
  limit: number | undefined,
  read: (page: { readonly pageSize: number; readonly pageToken: string }) => Promise<Page<T>>,
): AsyncGenerator<readonly T[]> {
  let left = limit ?? Number.POSITIVE_INFINITY;
  let pageToken = "";
  do {
    const { items, nextPageToken } = await read({ pageSize: Math.min(left, MAX_PAGE_SIZE), pageToken });
    yield items.slice(0, left);
    left -= items.length;
    pageToken = nextPageToken;
  } while (pageToken !== "" && left > 0);
}

/**
 * Reads the items of all pages.
 *
 * @param limit the maximum number of items. If undefined, reads all items
 */
export async function itemsOf<T>(limit: number | undefined, read: Parameters<typeof pagesOf<T>>[1]): Promise<T[]> {
  const items: T[] = [];
  for await (const page of pagesOf(limit, read)) items.push(...page);
  return items;
}

/** Returns all environments that are not being deleted. @param list calls ListEnvironments */
export function environmentsOf(
  list: (page: { readonly pageSize: number; readonly pageToken: string }) => Promise<ListEnvironmentsResponse>,
): Promise<Environment[]> {
  return itemsOf(undefined, async (page) => {
    const { environments, nextPageToken } = await list(page);
    return { items: environments.filter(({ deleteTime }) => !deleteTime), nextPageToken };
  });
}
