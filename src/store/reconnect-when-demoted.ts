import type { Redis } from "ioredis";

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
