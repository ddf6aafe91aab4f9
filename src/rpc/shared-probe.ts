import type { StoreProbe } from "../domain/store.ts";

/** How long a result is reused, in milliseconds: short enough to report an outage at once. */
const KEPT_MS = 100;

/**
 * A probe that sends one ping to the store at a time and reuses its result for a moment. Health checks need no API
 * token, so strangers must not be able to load the store through them.
 */
export class SharedProbe implements StoreProbe {
  readonly #probe: StoreProbe;
  readonly #keptMs: number;
  #answer: Promise<void> | undefined;
  /** The result is reused until this time of `performance.now()`. */
  #until = 0;

  /** @param keptMs how long a result is reused, in milliseconds */
  constructor(probe: StoreProbe, keptMs: number = KEPT_MS) {
    this.#probe = probe;
    this.#keptMs = keptMs;
  }

  ping(): Promise<void> {
    if (this.#answer && performance.now() < this.#until) return this.#answer;
    this.#until = Number.POSITIVE_INFINITY;
    const answer = this.#probe.ping();
    const keep = () => {
      this.#until = performance.now() + this.#keptMs;
    };
    answer.then(keep, keep);
    this.#answer = answer;
    return answer;
  }
}
