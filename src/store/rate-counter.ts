import type { RateCounter, RateLimit } from "../domain/store.ts";
import type { StoreClient } from "./connection/client.ts";
import { COUNT } from "./scripts.ts";

/** Creates the counters of a rate limit. All workers share these counters. Their keys are `ug:rate:KIND:KEY`. */
export function rateCounter(
  client: StoreClient,
  { kind, limit: { windowSeconds } }: { readonly kind: string; readonly limit: RateLimit },
): RateCounter {
  return {
    async add(key, amount) {
      const args = { key: `ug:rate:${kind}:${key}`, amount, windowSeconds };
      const [total, resetMs] = (await client.ask("count", COUNT, args)).map(Number) as [number, number];
      return { total, resetMs };
    },
  };
}
