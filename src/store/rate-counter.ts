import { type IRateLimiterOptions, RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";
import type { Count, RateCounter, RateLimit } from "../domain/rate-limit.ts";
import type { StoreClient } from "./client.ts";

/** What is counted: it names the keys, `ug:rate:KIND:KEY`. */
export interface RateCounterOptions {
  readonly kind: string;
  readonly limit: RateLimit;
}

/**
 * Counts for a limit in Redis, so that all workers count together, each key in whatever slot it is; in the memory of
 * this process while Redis is away.
 *
 * @param client undefined for the embedded store, which serves one process: it counts in memory alone
 */
export function rateCounter(client: StoreClient | undefined, { kind, limit }: RateCounterOptions): RateCounter {
  const options = { points: limit.max, duration: limit.windowSeconds, keyPrefix: `ug:rate:${kind}` };
  const memory = new RateLimiterMemory(options);
  const limiter = client ? inRedis(client, options, memory) : memory;
  return {
    // `penalty` counts only; `consume` would reject beyond the limit.
    add: async (key, amount): Promise<Count> => {
      const { consumedPoints, msBeforeNext } = await limiter.penalty(key, amount);
      return { total: consumedPoints, resetMs: msBeforeNext };
    },
    forget: (key) => void memory.delete(key),
  };
}

/** Counts in Redis and, when that fails, in memory, going on from what Redis answered last. */
function inRedis(client: StoreClient, options: IRateLimiterOptions, memory: RateLimiterMemory): RateLimiterRedis {
  // What rate-limiter-flexible needs of ioredis: its script as a command, whose arguments are in a list.
  const storeClient = {
    rlflxIncr: async ([redisKey = "", ...args]: string[]): Promise<[number, number]> => {
      const answer = await client.run("count", "ugCount", [redisKey, ...args]);
      const [total, resetMs] = [Number(answer[0]), Number(answer[1])];
      // For RateLimiterMemory, 0 seconds mean without an end.
      void memory.set(limiter.parseKey(redisKey), total, Math.max(1, resetMs) / 1000);
      return [total, resetMs];
    },
  };
  const limiter = new RateLimiterRedis({ ...options, storeClient, insuranceLimiter: memory });
  return limiter;
}
