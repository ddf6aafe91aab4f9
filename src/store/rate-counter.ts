import type { RateCounter, RateLimit } from "../domain/store.ts";
import type { StoreClient } from "./connection/client.ts";
import { COUNT } from "./scripts.ts";

/** The counters have the keys `ug:rate:KIND:KEY`. */
interface RateCounterOptions {
  readonly kind: string;
  readonly limit: RateLimit;
}

/** Creates the counters of a rate limit in Redis. All workers share these counters. */
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
