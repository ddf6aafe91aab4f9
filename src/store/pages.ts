import type { PageRequest } from "../domain/store.ts";
import type { StoreClient } from "./client.ts";

/** How many records are read at once, so that a long page leaves Redis to others in between. */
const BATCH = 100;

/** The members of a sorted set, all scores 0, that a page begins with, and where the next page begins. */
export async function pageOfKeys(client: StoreClient, setKey: string, { after, size }: PageRequest) {
  const from = after === "" ? "-" : `(${after}`;
  const found = await client.run("list", setKey, (redis) => redis.zrangebylex(setKey, from, "+", "LIMIT", 0, size + 1));
  const keys = found.slice(0, size);
  return { keys, next: found.length > size ? keys.at(-1) : undefined };
}

/** Reads the hashes that items have, in their order. One that is missing is an empty record. */
export async function readInBatches<T>(
  client: StoreClient,
  operation: string,
  items: readonly T[],
  keyOf: (item: T) => string,
): Promise<(readonly [T, Record<string, string>])[]> {
  const records: (readonly [T, Record<string, string>])[] = [];
  for (let start = 0; start < items.length; start += BATCH) {
    const read = items.slice(start, start + BATCH).map(async (item) => {
      const key = keyOf(item);
      return [item, await client.run(operation, key, (redis) => redis.hgetall(key))] as const;
    });
    records.push(...(await Promise.all(read)));
  }
  return records;
}
