/** How many times within the timeout to look for calls that took too long; at most every 5 ms, at least every 50 ms. */
const LOOKS = 20;

/** A call that may take no longer than the timeout. */
export interface TimedCall {
  /** When it has taken too long, by the clock of its `Timeouts`, which sets it. @internal */
  end: number;
  /** Called once, when it takes too long. */
  expire(): void;
}

/**
 * Ends calls that take too long. All have the same time, so that they end in the order of their beginning: a set, which
 * keeps that order, and one timer serve them all.
 *
 * The clock stands still while the process is too busy to read answers: that delay is not Redis' fault.
 */
export class Timeouts {
  readonly #timeoutMs: number;
  readonly #lookMs: number;
  readonly #calls = new Set<TimedCall>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the next step, the timer or the look that follows it, should run, by `performance.now()`. */
  #due = 0;
  /** For how long the process has been too busy, in milliseconds. */
  #busyMs = 0;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#lookMs = Math.min(Math.max(timeoutMs / LOOKS, 5), 50);
  }

  /** @param now `performance.now()` */
  add(call: TimedCall, now: number): void {
    call.end = now - this.#busyMs + this.#timeoutMs;
    this.#calls.add(call);
    if (this.#timer === undefined) this.#wait(now);
  }

  remove(call: TimedCall): void {
    this.#calls.delete(call);
  }

  /**
   * How long a call that was added may still take, in milliseconds. It may get longer while the process is busy, never
   * shorter.
   */
  left(call: TimedCall): number {
    return call.end - (performance.now() - this.#busyMs);
  }

  #wait(now: number): void {
    this.#due = now + this.#lookMs;
    this.#timer = setTimeout(this.#fire, this.#lookMs);
  }

  readonly #fire = (): void => {
    this.#passBusyTime();
    this.#due = performance.now();
    // After the reads of this turn: an answer that has arrived is not late.
    setImmediate(this.#look);
  };

  readonly #look = (): void => {
    this.#passBusyTime();
    const now = performance.now();
    for (const call of this.#calls) {
      if (call.end > now - this.#busyMs) break;
      this.#calls.delete(call);
      call.expire();
    }
    if (this.#calls.size > 0) this.#wait(now);
    else this.#timer = undefined;
  };

  /** Stops the clock for as long as a step came late. A small delay is normal, and does not count. */
  #passBusyTime(): void {
    const late = performance.now() - this.#due;
    if (late > this.#lookMs) this.#busyMs += late;
  }
}
