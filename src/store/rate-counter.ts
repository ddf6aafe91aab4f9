import type { RateCounter, RateLimit } from "../domain/store.ts";
import type { StoreClient } from "./connection/client.ts";
import { COUNT } from "./scripts.ts";

/** What is counted: it names the keys, `ug:rate:KIND:KEY`. */
export interface RateCounterOptions {
  readonly kind: string;
  readonly limit: RateLimit;
}

/** Counts for a limit in Redis, so that all workers count together, each key in whatever slot it is. */
export function rateCounter(client: StoreClient, { kind, limit }: RateCounterOptions): RateCounter {
  const { windowSeconds } = limit;
  return {
    async add(key, amount) {
      const args = { key: `ug:rate:${kind}:${key}`, amount, windowSeconds };
      const [total, resetMs] = (await client.ask("count", COUNT, args)).map(Number) as [number, number];
      return { total, resetMs };
    },
  };
}
