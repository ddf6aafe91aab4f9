import type { Redis } from "ioredis";

/** Asks Redis for its clock. */
export async function readClock(redis: Redis): Promise<RedisClock> {
  const clock = new RedisClock();
  const asked = performance.now();
  const [seconds, microseconds] = await redis.time();
  clock.learn(Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000), asked, performance.now());
  return clock;
}

/**
 * What a connection knows of Redis' clock: how far it is ahead of this process', at the least. A deadline by it is
 * therefore never later for Redis than it is here.
 *
 * Every answer with a time shows where Redis' clock was at some instant between the question and the answer, which
 * bounds the difference from both sides. When it is out of these bounds it is set to the lower one, so that it follows
 * a clock that drifts or is set.
 */
export class RedisClock {
  /** Redis' milliseconds since 1970 less those of `performance.now()`. */
  #ahead = Number.NEGATIVE_INFINITY;

  /**
   * @param time Redis' clock in milliseconds, without the fraction
   * @param asked `performance.now()` before it was asked for
   * @param answered `performance.now()` when the answer was there
   */
  learn(time: number, asked: number, answered: number): void {
    const atLeast = time - answered;
    if (this.#ahead < atLeast || this.#ahead > time + 1 - asked) this.#ahead = atLeast;
  }

  /** An instant of `performance.now()` by Redis' clock, as a script takes it. */
  at(instant: number): string {
    return String(Math.floor(instant + this.#ahead));
  }
}
