import type { RateCounter, RateLimit } from "../domain/store.ts";
import type { StoreClient } from "./connection/client.ts";
import { countScript } from "./connection/script.ts";
import count from "./scripts/count.lua" with { type: "text" };

/** Changes nothing that has to last, so it takes no deadline, and no replica is waited for. */
export const COUNT = countScript("count", {
  ...{ keys: ["key"], args: ["amount", "windowSeconds"], lua: count, singleKey: true },
});

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
