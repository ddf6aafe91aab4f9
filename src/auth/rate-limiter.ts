import { setBounded } from "../domain/bounded.ts";
import type { Limited, RateCounter, RateLimit } from "../domain/store.ts";

/** How many keys are kept; the one with the oldest window makes room for a new one. Redis still has its count. */
export const MAX_KEYS = 10_000;

/** What this process knows of a key. While the counter cannot count, the process goes on from there by itself. */
interface Usage {
  readonly key: string;
  /** What all workers have counted, by the last answer of the counter, and what it has failed to count since. */
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
 * while their counts are in flight; and while Redis cannot count, each goes on from what it was told last.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #counter: RateCounter | undefined;
  readonly #maxKeys: number;
  readonly #usages = new Map<string, Usage>();

  /** @param options `counter`: counts for all workers; undefined: there is this process alone */
  constructor(options: {
    readonly limit: RateLimit;
    readonly counter: RateCounter | undefined;
    readonly maxKeys?: number;
  }) {
    this.#limit = options.limit;
    this.#counter = options.counter;
    this.#maxKeys = options.maxKeys ?? MAX_KEYS;
  }

  /** Counts under a key, unless its limit is reached. What is refused is not counted, and costs Redis nothing. */
  take(key: string): Limited | undefined {
    const now = performance.now();
    const usage = this.#usageOf(key, now);
    const { counted, sent, waiting, resetAt } = usage;
    if (counted + sent + waiting >= this.#limit.max) {
      return { limit: this.#limit, retryAfterMs: Math.max(0, resetAt - now) };
    }
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
    // Redis decides to which window a count that is still under way belongs, and says so in its answer.
    usage.counted = 0;
    usage.resetAt = now + windowSeconds * 1000;
    // It goes last, so that the first key is always the one with the oldest window.
    setBounded(this.#usages, key, usage, this.#maxKeys);
    return usage;
  }

  /** Counts what waits. The command leaves in this turn of the event loop, beside those of the call. */
  #send(counter: RateCounter, usage: Usage): void {
    usage.sent = usage.waiting;
    usage.waiting = 0;
    const goOn = () => {
      usage.sent = 0;
      if (usage.waiting > 0) this.#send(counter, usage);
    };
    counter.add(usage.key, usage.sent).then(
      ({ total, resetMs }) => {
        usage.counted = total;
        usage.resetAt = performance.now() + resetMs;
        goOn();
      },
      () => {
        usage.counted += usage.sent;
        goOn();
      },
    );
  }
}
