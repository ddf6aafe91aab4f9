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

/** The longest pause between two attempts, in milliseconds. */
const LONGEST_MS = 2000;

/** A refusal that comes this long after the last one, in milliseconds, is the first of another demotion. */
const OVER_MS = 10_000;

/**
 * Connects anew when Redis refuses a change because it is a replica: it was demoted, and the name or address may lead
 * to the new primary by now. The first time at once, then with pauses that double, because reads are answered meanwhile
 * and each attempt interrupts them.
 *
 * @returns to be called with every error that Redis answers
 */
export function reconnectWhenDemoted(redis: () => Redis): (error: Error) => void {
  let pauseMs = 0;
  let last = Number.NEGATIVE_INFINITY;
  let timer: ReturnType<typeof setTimeout> | undefined;
  return (error) => {
    if (!error.message.startsWith("READONLY")) return;
    const now = performance.now();
    if (now - last > OVER_MS) pauseMs = 0;
    last = now;
    if (timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      if (redis().status === "ready") redis().disconnect(true);
    }, pauseMs);
    timer.unref();
    pauseMs = Math.min(pauseMs * 2 || 100, LONGEST_MS);
  };
}
