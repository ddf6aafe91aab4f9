import type { Redis } from "ioredis";

export async function readClock(redis: Redis): Promise<RedisClock> {
  const clock = new RedisClock();
  const requested = performance.now();
  const [seconds, microseconds] = await redis.time();
  clock.learn(Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000), requested, performance.now());
  return clock;
}

/**
 * Estimates Redis' clock. The estimate is never ahead of Redis' clock. A deadline therefore passes in Redis no later
 * than in this process. From the send time of a command and the arrival time of its answer, this class calculates a
 * minimum and a maximum of the difference between the clocks. If the estimated difference is outside of this range, the
 * minimum replaces the estimate. The estimate therefore stays correct if a clock drifts or is set.
 */
export class RedisClock {
  /** The estimated difference: Redis' time in milliseconds since 1970 minus `performance.now()`. */
  #ahead = Number.NEGATIVE_INFINITY;

  /**
   * Corrects the estimate with an answer of Redis.
   *
   * @param time the time by Redis' clock, in whole milliseconds since 1970
   * @param requested `performance.now()` when the command was sent
   * @param answered `performance.now()` when the answer arrived
   */
  learn(time: number, requested: number, answered: number): void {
    const atLeast = time - answered;
    if (this.#ahead < atLeast || this.#ahead > time + 1 - requested) this.#ahead = atLeast;
  }

  /** Converts a time of `performance.now()` to Redis' time, in the form of a script argument. */
  at(instant: number): string {
    return String(Math.floor(instant + this.#ahead));
  }
}
