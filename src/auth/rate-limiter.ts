import type { Limited, RateCounter, RateLimit } from "../domain/store.ts";

/** How many keys are kept; the one with the oldest window makes room for a new one. Redis still has its count. */
const MAX_KEYS = 10_000;

/** What this process knows of a key. */
interface Usage {
  readonly key: string;
  /** What all workers have counted, by the last answer of the counter. */
  counted: number;
  /** What the counter has not answered yet: at most one count of a key is in flight. */
  sent: number;
  /** What the next count will add. */
  waiting: number;
  /** When the window ends, by `performance.now()`. */
  resetAt: number;
}

/**
 * Limits how often something is done under a key. No call waits for Redis: it is decided by what this process knows,
 * and counted in Redis at the same time. One worker never exceeds the limit. Several together exceed it by what they do
 * while their counts are in flight.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #counter: RateCounter;
  readonly #maxKeys: number;
  readonly #usages = new Map<string, Usage>();

  constructor(options: { readonly limit: RateLimit; readonly counter: RateCounter; readonly maxKeys?: number }) {
    this.#limit = options.limit;
    this.#counter = options.counter;
    this.#maxKeys = options.maxKeys ?? MAX_KEYS;
  }

  /** Whether the limit of a key is reached. It counts nothing. */
  look(key: string): Limited | undefined {
    const { counted, sent, waiting, resetAt } = this.#usages.get(key) ?? {
      counted: 0,
      sent: 0,
      waiting: 0,
      resetAt: 0,
    };
    const leftMs = resetAt - performance.now();
    const isReached = leftMs > 0 && counted + sent + waiting >= this.#limit.max;
    return isReached ? { limit: this.#limit, retryAfterMs: leftMs } : undefined;
  }

  /** Counts under a key, unless its limit is reached. What is refused is not counted, and costs Redis nothing. */
  take(key: string): Limited | undefined {
    const now = performance.now();
    const usage = this.#usageOf(key, now);
    const { counted, sent, waiting, resetAt } = usage;
    if (counted + sent + waiting >= this.#limit.max) {
      return { limit: this.#limit, retryAfterMs: Math.max(0, resetAt - now) };
    }
    usage.waiting++;
    if (sent === 0) this.#send(usage);
    return undefined;
  }

  #usageOf(key: string, now: number): Usage {
    const known = this.#usages.get(key);
    if (known && now < known.resetAt) return known;
    const { windowSeconds } = this.#limit;
    const usage = known ?? { key, counted: 0, sent: 0, waiting: 0, resetAt: 0 };
    // Redis decides to which window a count that is still under way belongs, and says so in its answer.
    usage.counted = 0;
    usage.resetAt = now + windowSeconds * 1000;
    // It goes last, so that the first key is always the one with the oldest window.
    const dropped = setBounded(this.#usages, key, usage, this.#maxKeys);
    if (dropped !== undefined) this.#counter.forget(dropped);
    return usage;
  }

  /** Counts what waits. The command leaves in this turn of the event loop, beside those of the call. */
  #send(usage: Usage): void {
    usage.sent = usage.waiting;
    usage.waiting = 0;
    this.#counter.add(usage.key, usage.sent).then(({ total, resetMs }) => {
      usage.counted = total;
      usage.resetAt = performance.now() + resetMs;
      usage.sent = 0;
      // The key has made room for another one meanwhile.
      if (!this.#usages.has(usage.key)) this.#counter.forget(usage.key);
      if (usage.waiting > 0) this.#send(usage);
    });
  }
}

/**
 * Sets a key of a map behind all others. When the map has too many then, the first makes room.
 *
 * @param max how many keys the map may have
 * @returns the key that made room
 */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, max: number): K | undefined {
  map.delete(key);
  map.set(key, value);
  if (map.size <= max) return undefined;
  const [first] = map.keys();
  if (first !== undefined) map.delete(first);
  return first;
}
