import { expect, it } from "vitest";
import { pagesOf } from "./pages.ts";

/** Creates a list of numbers that records the page size of each request. */
function newList(length: number) {
  const requested: number[] = [];
  return {
    requested,
    read: async ({ pageSize, pageToken }: { pageSize: number; pageToken: string }) => {
      requested.push(pageSize);
      const start = Number(pageToken);
      // Return fewer items than requested, because the service may also do this.
      const end = Math.min(length, start + Math.max(1, pageSize - 1));
      const items = Array.from({ length: end - start }, (_, i) => start + i);
      return { items, nextPageToken: end < length ? String(end) : "" };
    },
  };
}

const all = async (limit: number | undefined, read: ReturnType<typeof newList>["read"]) => {
  const found: number[] = [];
  for await (const page of pagesOf(limit, read)) found.push(...page);
  return found;
};

it("pagesOf reads a list to its end or to the limit, and requests no unnecessary page", async () => {
  const list = newList(2500);
  expect((await all(undefined, list.read)).length).toBe(2500);
  expect(list.requested).toEqual([1000, 1000, 1000]);
  list.requested.length = 0;
  expect(await all(1500, list.read)).toEqual(Array.from({ length: 1500 }, (_, i) => i));
  expect(list.requested.slice(0, 2)).toEqual([1000, 501]);
  list.requested.length = 0;
  await pagesOf(undefined, list.read).next();
  expect(list.requested).toEqual([1000]);
});
