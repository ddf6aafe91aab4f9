import { afterEach, expect, it, vi } from "vitest";
import type { StoreClient } from "../store/connection/client.ts";
import { holdsData } from "./redis-state.ts";

afterEach(() => vi.restoreAllMocks());

/** Creates a client whose nodes return these pages of keys. Each page advances `performance.now` by one second. */
function clientOf(nodes: { readonly [name: string]: readonly (readonly string[])[] }): Pick<StoreClient, "each"> {
  let now = performance.now();
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const each = (_: string, ask: (redis: unknown, name: string) => Promise<unknown>) =>
    Promise.all(
      Object.entries(nodes).map(([name, pages]) => {
        const scan = async (cursor: string | number) => {
          now += 1000;
          const page = Number(cursor);
          return [String((page + 1) % pages.length), pages[page]];
        };
        return ask({ scan }, name);
      }),
    );
  return { each } as unknown as Pick<StoreClient, "each">;
}

it("`holdsData` finds data of this service after any number of pages with other keys", async () => {
  const others = Array.from({ length: 50 }, () => []);
  expect(await holdsData(clientOf({ one: [...others, ["ug:env:a"]] }))).toBe(true);
  expect(await holdsData(clientOf({ one: [[]], two: [...others, ["ug:env:a"]] }))).toBe(true);
});

it("`holdsData` finds data of the current layout", async () => {
  expect(await holdsData(clientOf({ one: [["ug:{7}:environment"]] }))).toBe(true);
  expect(await holdsData(clientOf({ one: [["ug:{7}:group:a"]] }))).toBe(true);
});

it("`holdsData` does not count the keys of rate limits as data", async () => {
  expect(await holdsData(clientOf({ one: [[], ["ug:rate:a"]], two: [["ug:rate:b"]] }))).toBe(false);
});

it("`holdsData` ignores the keys that running processes write after Redis was emptied", async () => {
  const late = ["ug:{ug:format}:time", "ug:token-keys", "ug:environments"];
  expect(await holdsData(clientOf({ one: [late] }))).toBe(false);
});
