import type { RateCounter, RateLimit } from "../domain/store.ts";
import type { StoreClient } from "./redis/client.ts";
import { readScript } from "./redis/script.ts";

/**
 * Adds to a count that lasts for a window of time, which begins with what is counted first. It changes nothing that has
 * to last, so it takes no deadline, and no replica is waited for. A count without an end, which an operator may have
 * made, gets one. Answers the count, and when the window ends in milliseconds from now.
 */
const COUNT = readScript(
  "ugCount",
  {
    isAlone: true,
    args: ["amount", "windowSeconds"],
    lua: `local count = redis.call('INCRBY', key, amount)
local left = redis.call('PTTL', key)
if left < 0 then
  left = windowSeconds * 1000
  redis.call('PEXPIRE', key, string.format('%.0f', left))
end
return {string.format('%.0f', count), string.format('%.0f', left)}`,
  },
  "",
);

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
