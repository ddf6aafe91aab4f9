import type { Redis } from "ioredis";

/** How often in the time that it may be silent a connection is looked at. */
const LOOKS = 4;

/**
 * Ends a connection from which nothing has come for a time though answers are
 * awaited, so that a new one is made. ioredis has an option for this,
 * `socketTimeout`, whose timer outlives its connection and ends the next one
 * (5.11.1).
 *
 * @param silenceMs how long it may be silent, in milliseconds; what is ended has been silent up to a quarter longer
 * @returns whether it is silent now, for at least a quarter of that time
 */
export function dropWhenSilent(redis: Redis, silenceMs: number): () => boolean {
  let silent = 0;
  redis.on("connect", () => {
    const { stream } = redis;
    let heard = true;
    silent = 0;
    stream.on("data", () => {
      heard = true;
    });
    const look = () => {
      silent = heard || redis.commandQueue.length === 0 ? 0 : silent + 1;
      heard = false;
      // The first look may have found what had been sent just before it.
      if (silent <= LOOKS || stream.destroyed) return;
      stream.destroy(new Error(`Redis does not answer: nothing has come for ${silenceMs} ms`));
    };
    // Behind the reads of the turn: what has come while the process was busy is not silence.
    const timer = setInterval(() => setImmediate(look), silenceMs / LOOKS);
    stream.once("close", () => clearInterval(timer));
  });
  return () => silent > 1;
}
