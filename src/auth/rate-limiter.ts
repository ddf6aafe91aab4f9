import { setBounded } from "../domain/bounded.ts";
import type { Limited, RateCounter, RateLimit } from "../domain/store.ts";

/**
 * The maximum number of keys in memory. At this maximum, a new key replaces the key with the oldest window. The count
 * of the replaced key stays in Redis.
 */
export const MAX_KEYS = 10_000;

interface Usage {
  readonly key: string;
  /**
   * The last total that the counter returned. If a later request to the counter fails, the uses in that request are
   * added.
   */
  counted: number;
  /** The number of uses that the request in flight adds to the counter. Each key has at most one request in flight. */
  sent: number;
  /** The number of uses that the next request adds to the counter. */
  waiting: number;
  /** The end of the window, by `performance.now()`. */
  resetAt: number;
}

/**
 * Limits the uses of each key. A key is an API token or a client address. A call does not wait for Redis. The worker
 * decides by the count in its memory, and adds its uses to the count in Redis in the background. A single worker never
 * exceeds the limit. Several workers together may exceed the limit by the number of uses during one round trip. While
 * Redis fails, each worker adds its uses to the last count that it received from Redis.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #counter: RateCounter | undefined;
  readonly #usages = new Map<string, Usage>();

  /** @param options `counter`: the counter that all workers share. Undefined with the embedded store */
  constructor({ limit, counter }: { readonly limit: RateLimit; readonly counter: RateCounter | undefined }) {
    this.#limit = limit;
    this.#counter = counter;
  }

  /** Counts one use of a key. If the key has reached the limit, does not count the use, and returns the limit. */
  take(key: string): Limited | undefined {
    const now = performance.now();
    const usage = this.#usageOf(key, now);
    const { counted, sent, waiting, resetAt } = usage;
    if (counted + sent + waiting >= this.#limit.max)
      return { limit: this.#limit, retryAfterMs: Math.max(0, resetAt - now) };
    if (!this.#counter) usage.counted++;
    else {
      usage.waiting++;
      if (sent === 0) this.#send(this.#counter, usage);
    }
    return undefined;
  }

  #usageOf(key: string, now: number): Usage {
    const known = this.#usages.get(key);
    if (known && now < known.resetAt) return known;
    const { windowSeconds } = this.#limit;
    const usage = known ?? { key, counted: 0, sent: 0, waiting: 0, resetAt: 0 };
    // If a request to the counter is in flight, its response replaces `counted` and `resetAt`.
    usage.counted = 0;
    usage.resetAt = now + windowSeconds * 1000;
    // Move the key to the end of the map, so that the first key of the map always has the oldest window.
    setBounded(this.#usages, key, usage, MAX_KEYS);
    return usage;
  }

  /** Sends all waiting uses in one request. After the response, sends the uses that arrived in the meantime. */
  #send(counter: RateCounter, usage: Usage): void {
    usage.sent = usage.waiting;
    usage.waiting = 0;
    const sendNext = () => {
      usage.sent = 0;
      if (usage.waiting > 0) this.#send(counter, usage);
    };
    counter.add(usage.key, usage.sent).then(
      ({ total, resetMs }) => {
        usage.counted = total;
        usage.resetAt = performance.now() + resetMs;
        sendNext();
      },
      () => {
        usage.counted += usage.sent;
        sendNext();
      },
    );
  }
}
