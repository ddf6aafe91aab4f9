import type { PageRequest } from "../domain/store.ts";
import type { StoreClient } from "./client.ts";

/** How many records are read at once, so that a long page does not keep Redis from its other callers. */
const BATCH = 100;

/** The members of a sorted set, all scores 0, that a page begins with, and where the next page begins. */
export async function pageOfKeys(client: StoreClient, setKey: string, { after, size }: PageRequest) {
  const from = after === "" ? "-" : `(${after}`;
  const found = await client.run("list", "zrangebylex", [setKey, from, "+", "LIMIT", 0, size + 1]);
  const keys = found.slice(0, size);
  return { keys, next: found.length > size ? keys.at(-1) : undefined };
}

/** How records are read. */
interface RecordReading<T> {
  /** The name of the operation, for metrics. */
  readonly operation: string;
  readonly keyOf: (item: T) => string;
  /** How many records are read at once; default: 100. */
  readonly atOnce?: number;
}

/** Reads the hashes of items, and yields them in the order of the items. A missing hash is an empty record. */
export async function* recordsOf<T>(
  client: StoreClient,
  items: readonly T[],
  { operation, keyOf, atOnce = BATCH }: RecordReading<T>,
): AsyncGenerator<readonly [T, Record<string, string>]> {
  for (let start = 0; start < items.length; start += atOnce) {
    const read = items
      .slice(start, start + atOnce)
      .map(async (item) => [item, await client.run(operation, "hgetall", [keyOf(item)])] as const);
    yield* await Promise.all(read);
  }
}
