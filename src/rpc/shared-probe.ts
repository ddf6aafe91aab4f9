import type { StoreProbe } from "../domain/store.ts";

/** How long an answer holds, in milliseconds: short enough for an outage to be told at once. */
const KEPT_MS = 100;

/**
 * A probe of which one question is under way at a time, and whose answer holds
 * for a moment: those who may ask without an API token are not to put their
 * load on the store.
 */
export class SharedProbe implements StoreProbe {
  readonly #probe: StoreProbe;
  readonly #keptMs: number;
  #answer: Promise<void> | undefined;
  /** `performance.now()` from which on the store is asked again. */
  #until = 0;

  /** @param keptMs how long an answer holds, in milliseconds */
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
