import { pause } from "@user-group-service/testing/wait";

/** Figures of the calls in one phase of a rehearsal. */
export interface Figures {
  readonly calls: number;
  /** Failed calls and wrong answers, with their number. */
  readonly faults: { readonly [fault: string]: number };
  /** Duration of the longest call of each kind, in milliseconds. */
  readonly longestMs: { readonly [kind: string]: number };
}

/** Counts and times the calls of a load, phase by phase. */
export class CallTally {
  #calls = 0;
  #faults: { [fault: string]: number } = {};
  #longestMs: { [kind: string]: number } = {};
  /** Times of the first and last failure of the phase, by `performance.now()`. */
  #faultsAt: [number, number] | undefined;

  /**
   * Counts a call, whatever its outcome.
   *
   * @throws the error of the call
   */
  async timed<T>(call: Promise<T>, kind = "call"): Promise<T> {
    const began = performance.now();
    try {
      return await call;
    } finally {
      this.#calls++;
      this.#longestMs[kind] = Math.max(this.#longestMs[kind] ?? 0, Math.round(performance.now() - began));
    }
  }

  /** Counts a failure or a wrong answer. */
  fault(text: string): void {
    this.#faults[text] = (this.#faults[text] ?? 0) + 1;
    const now = performance.now();
    this.#faultsAt = [this.#faultsAt?.[0] ?? now, now];
  }

  /** Returns and prints the figures of the calls made during an action, or during this many milliseconds. */
  async during(name: string, work: number | (() => Promise<unknown>)): Promise<Figures> {
    this.#reset();
    const began = performance.now();
    await (typeof work === "number" ? pause(work) : work());
    const seconds = (performance.now() - began) / 1000;
    const figures = { calls: this.#calls, faults: { ...this.#faults }, longestMs: { ...this.#longestMs } };
    const longest = Object.entries(figures.longestMs).map(([kind, ms]) => `${kind} ${ms} ms`);
    const [from, until] = this.#faultsAt ?? [0, 0];
    const failed = Object.values(figures.faults).reduce((sum, count) => sum + count, 0);
    const within = failed > 1 ? ` within ${(until - from).toFixed(0)} ms` : "";
    console.log(
      `${name}: ${figures.calls} calls in ${seconds.toFixed(1)} s, ${failed} failed or wrong${within}, the longest ${longest.join(", ")}`,
      ...(failed > 0 ? [figures.faults] : []),
    );
    return figures;
  }

  #reset(): void {
    [this.#calls, this.#faults, this.#longestMs, this.#faultsAt] = [0, {}, {}, undefined];
  }
}
