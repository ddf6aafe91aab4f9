import type { Redis } from "ioredis";

/** Reads the clock of Redis. */
export async function readClock(redis: Redis): Promise<RedisClock> {
  const clock = new RedisClock();
  const requested = performance.now();
  const [seconds, microseconds] = await redis.time();
  clock.learn(Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000), requested, performance.now());
  return clock;
}

/**
 * An estimate of Redis' clock that is never ahead of that clock. So a deadline by this clock is never later in Redis
 * than in this process.
 *
 * Redis reads its clock between the command and the answer. This gives a lower and an upper bound for the difference of the two
 * clocks. An estimate outside of these bounds is set to the lower bound. So it follows a clock that drifts or is set.
 */
export class RedisClock {
  /** Redis' milliseconds since 1970 minus `performance.now()`. */
  #ahead = Number.NEGATIVE_INFINITY;

  /**
   * @param time Redis' clock in whole milliseconds since 1970
   * @param requested `performance.now()` when the command was sent
   * @param answered `performance.now()` when the answer arrived
   */
  learn(time: number, requested: number, answered: number): void {
    const atLeast = time - answered;
    if (this.#ahead < atLeast || this.#ahead > time + 1 - requested) this.#ahead = atLeast;
  }

  /** Converts a time of `performance.now()` to Redis' clock, as an argument of a script. */
  at(instant: number): string {
    return String(Math.floor(instant + this.#ahead));
  }
}
