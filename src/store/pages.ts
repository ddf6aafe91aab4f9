import type { PageRequest } from "../domain/store.ts";
import type { StoreClient } from "./redis/client.ts";

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
export interface RecordReading<T> {
  /** The name of the operation, for metrics. */
  readonly operation: string;
  readonly keyOf: (item: T) => string;
  /** How many records are read at once; default: 100. */
  readonly atOnce?: number;
  /** The fields to read; default: all. */
  readonly fields?: readonly string[];
}

/** Reads the hashes of items, and yields them in the order of the items. A missing hash is an empty record. */
export async function* recordsOf<T>(
  client: StoreClient,
  items: readonly T[],
  { operation, keyOf, atOnce = BATCH, fields }: RecordReading<T>,
): AsyncGenerator<readonly [T, Record<string, string>]> {
  const read = async (key: string) => {
    if (fields === undefined) return client.run(operation, "hgetall", [key]);
    const values = await client.run(operation, "hmget", [key, ...fields]);
    const entries = fields.map((field, i) => [field, values[i]] as const);
    return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
  };
  for (let start = 0; start < items.length; start += atOnce) {
    const batch = items.slice(start, start + atOnce);
    yield* await Promise.all(batch.map(async (item) => [item, await read(keyOf(item))] as const));
  }
}
