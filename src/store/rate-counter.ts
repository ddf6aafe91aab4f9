// By its file: the package's index loads a limiter for each of twenty databases, a tenth of what a start has to read.
import RateLimiterMemory from "rate-limiter-flexible/lib/RateLimiterMemory.js";
import type { RateCounter, RateLimit } from "../domain/store.ts";
import type { StoreClient } from "./redis/client.ts";
import { readScript } from "./script.ts";

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

/**
 * Counts for a limit in Redis, so that all workers count together, each key in whatever slot it is. While Redis is away
 * it counts in the memory of this process, going on from what Redis answered last.
 *
 * @param client undefined for the embedded store, which serves one process: it counts in memory alone
 */
export function rateCounter(client: StoreClient | undefined, { kind, limit }: RateCounterOptions): RateCounter {
  const { windowSeconds } = limit;
  const memory = new RateLimiterMemory({ points: limit.max, duration: windowSeconds });
  const inMemory: RateCounter["add"] = async (key, amount) => {
    // `penalty` counts only; `consume` would reject beyond the limit.
    const { consumedPoints, msBeforeNext } = await memory.penalty(key, amount);
    return { total: consumedPoints, resetMs: msBeforeNext };
  };
  const inRedis = async (store: StoreClient, key: string, amount: number) => {
    const args = { key: `ug:rate:${kind}:${key}`, amount, windowSeconds };
    const [total, resetMs] = (await store.ask("count", COUNT, args)).map(Number) as [number, number];
    // 0 seconds would mean without an end.
    void memory.set(key, total, Math.max(1, resetMs) / 1000);
    return { total, resetMs };
  };
  return {
    add: client ? (key, amount) => inRedis(client, key, amount).catch(() => inMemory(key, amount)) : inMemory,
    forget: (key) => void memory.delete(key),
  };
}
