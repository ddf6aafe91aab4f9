import type { StoreProbe } from "../domain/store.ts";

/** How long a result is reused, in milliseconds: short enough to report an outage at once. */
const KEPT_MS = 100;

/**
 * A probe that sends one ping to the store at a time and reuses its result for a moment. Health checks need no API
 * token, so strangers must not be able to load the store through them.
 *
 * @param keptMs how long a result is reused, in milliseconds
 */
export function sharedProbe(probe: StoreProbe, keptMs: number = KEPT_MS): StoreProbe {
  let answer: Promise<void> | undefined;
  /** The result is reused until this time of `performance.now()`. */
  let until = 0;
  const keep = () => {
    until = performance.now() + keptMs;
  };
  return {
    ping() {
      if (answer && performance.now() < until) return answer;
      until = Number.POSITIVE_INFINITY;
      answer = probe.ping();
      answer.then(keep, keep);
      return answer;
    },
  };
}
