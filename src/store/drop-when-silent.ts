import type { Redis } from "ioredis";

/** How many times a connection is checked within the time that it may be silent. */
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
      // The first check may have come right after a command was sent.
      if (silent <= LOOKS || stream.destroyed) return;
      stream.destroy(new Error(`Redis does not answer: nothing has come for ${silenceMs} ms`));
    };
    // After the reads of this turn, so that answers which arrived while the process was busy count.
    const timer = setInterval(() => setImmediate(look), silenceMs / LOOKS);
    stream.once("close", () => clearInterval(timer));
  });
  return () => silent > 1;
}
