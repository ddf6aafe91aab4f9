/** How many times within the timeout to look for calls that took too long; at most every 5 ms, at least every 50 ms. */
const LOOKS = 20;

/** A call that may take no longer than the timeout. */
export abstract class TimedCall {
  /** @internal */
  previous: TimedCall | undefined;
  /** @internal */
  next: TimedCall | undefined;
  /** When it has taken too long, by the clock of its `Timeouts`. @internal */
  end = 0;

  /** Called once, when it takes too long. */
  abstract expire(): void;
}

/**
 * Ends calls that take too long. All have the same time, so that they end in the order of their beginning: a list and
 * one timer serve them all.
 *
 * A `Set` would keep the order, too. But the tables that it discards hold the calls that were under way then, and once
 * they are old to V8, so are those calls and all that they hold: twice as much garbage to collect.
 *
 * The clock stands still while the process is too busy to read answers: that delay is not Redis' fault.
 */
export class Timeouts {
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly #lookMs: number;
  /** Begins and ends the list. */
  #first: TimedCall | undefined;
  #last: TimedCall | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the next step, the timer or the look that follows it, should run, by `performance.now()`. */
  #due = 0;
  /** For how long the process has been too busy, in milliseconds. */
  #busyMs = 0;

  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs;
    this.#lookMs = Math.min(Math.max(timeoutMs / LOOKS, 5), 50);
  }

  /** @param now `performance.now()` */
  add(call: TimedCall, now: number): void {
    call.end = now - this.#busyMs + this.timeoutMs;
    call.previous = this.#last;
    if (this.#last) this.#last.next = call;
    else this.#first = call;
    this.#last = call;
    if (this.#timer === undefined) this.#wait(now);
  }

  /** Removes a call that was added; to be called once, unless the call expired. */
  remove(call: TimedCall): void {
    if (call.previous) call.previous.next = call.next;
    else this.#first = call.next;
    if (call.next) call.next.previous = call.previous;
    else this.#last = call.previous;
    call.previous = undefined;
    call.next = undefined;
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
    while (this.#first && this.#first.end <= now - this.#busyMs) {
      const call = this.#first;
      this.remove(call);
      call.expire();
    }
    if (this.#first) this.#wait(now);
    else this.#timer = undefined;
  };

  /** Stops the clock for as long as a step came late. A small delay is normal, and does not count. */
  #passBusyTime(): void {
    const late = performance.now() - this.#due;
    if (late > this.#lookMs) this.#busyMs += late;
  }
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
