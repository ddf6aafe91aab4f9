import type { CallOptions } from "@connectrpc/connect";

/**
 * Returns the pages of a list. Requests the next page after the caller has processed a page:
 * `for await (const { userGroups } of pages(admin.listUserGroups, { environment })) …`
 *
 * @param list a method with `pageToken` in its request and `nextPageToken` in its response
 * @param request the request of the first page, with or without `pageToken`
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
