import type { CallOptions } from "@connectrpc/connect";

/**
 * Iterates over the pages of a list. Requests the next page only if the caller continues the loop:
 * `for await (const { userGroups } of pages(admin.listUserGroups, { environment })) …`
 *
 * @param list a method that lists items. The request of the method has a field `pageToken`, and the response has a
 *   field `nextPageToken`
 * @param request the request of the first page. If `pageToken` is set, the iteration starts at the page of this token
 */
export async function* pages<Request extends { pageToken?: string }, Page extends { nextPageToken: string }>(
  list: (request: Request, options?: CallOptions) => Promise<Page>,
  request: NoInfer<Request>,
  options?: CallOptions,
): AsyncGenerator<Page, void, undefined> {
  for (let next: Request = request; ; ) {
    const page = await list(next, options);
    yield page;
    if (!page.nextPageToken) return;
    next = { ...request, pageToken: page.nextPageToken };
  }
}
