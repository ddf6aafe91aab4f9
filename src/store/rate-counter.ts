import { RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";
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
  const limiter = client
    ? new RateLimiterRedis({ ...options, storeClient: counting(client), insuranceLimiter: memory })
    : memory;
  return {
    // It counts, and leaves it to the caller what follows: `consume` would reject beyond the limit.
    add: async (key, amount): Promise<Count> => {
      const { consumedPoints, msBeforeNext } = await limiter.penalty(key, amount);
      return { total: consumedPoints, resetMs: msBeforeNext };
    },
    forget: (key) => void memory.delete(key),
  };
}

/** What rate-limiter-flexible needs of ioredis: its script as a command, whose arguments are in a list. */
function counting(client: StoreClient) {
  return {
    rlflxIncr: async ([key = "", ...args]: string[]): Promise<number[]> => {
      const answer = await client.run("count", key, (redis) => redis.ugCount(key, ...args));
      return answer.map(Number);
    },
  };
}
