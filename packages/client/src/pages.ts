import type { CallOptions } from "@connectrpc/connect";

/**
 * The pages of a list, each of which is called for when the one before was used:
 * `for await (const { userGroups } of pages(admin.listUserGroups, { environment })) …`
 *
 * @param list a method that takes `pageToken` and answers with `nextPageToken`
 * @param request of the first page, without or with a `pageToken`
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
