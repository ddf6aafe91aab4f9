import { setImmediate } from "node:timers";
import type { RequestHead } from "../http-types.ts";

/** The maximum number of calls that begin in one turn of the event loop while no call waits. */
const MAX_AT_ONCE = 64;

/**
 * The maximum number of waiting calls that begin in one turn. They take about a millisecond, so that the calls of other callers
 * are read soon.
 */
const MAX_PER_TURN = 16;

/** The longest wait of a call, in milliseconds. Then it is refused. */
export const MAX_WAIT_MS = 2000;

/** The interval at which the rate of the queue is measured, in milliseconds. */
const RATE_INTERVAL_MS = 250;

/** The options of a queue of calls. */
export interface CallQueueOptions {
  /** The maximum number of calls that wait or are in flight. More are refused. Default: no limit. */
  readonly maxCalls?: number;
  /** Returns the caller of a request, such as the id of its API token. Callers take turns. Default: one caller. */
  readonly callerOf?: (request: RequestHead) => string;
  /** Called when a call has waited. */
  readonly onWaited?: (seconds: number) => void;
}

/** Why a call is refused: too many calls wait or are in flight, or the call has waited for two seconds. */
export type OverloadCause = "queue-full" | "waited-too-long";

/** A call that waits. */
interface Waiting {
  readonly request: RequestHead;
  /** When it began to wait, by `performance.now()`. */
  readonly since: number;
  /** @param refused undefined if the call begins */
  readonly end: (refused?: OverloadCause) => void;
}

/**
 * Begins calls in a fair order. While a worker has time, a call begins at once. Otherwise the call waits, and the callers take
 * turns: a caller with many waiting calls does not delay the calls of another.
 *
 * A waiting call uses only the memory of its request. Its body is neither read nor decoded.
 */
export class CallQueue {
  readonly #options: CallQueueOptions;
  readonly #max: number;
  /** The waiting calls of each caller, oldest first. The first caller is the next. */
  readonly #callers = new Map<string, Waiting[]>();
  #waiting = 0;
  /** The rate at which waiting calls begin or are refused. Measured while calls wait. */
  #perSecond = Number.POSITIVE_INFINITY;
  #measuredSince = 0;
  #ended = 0;
  /** The number of calls that began in this turn of the event loop. */
  #begun = 0;
  /** The number of calls that found no room in this turn. */
  #refused = 0;
  /** The number of calls in flight. The owner of a call counts it. */
  inFlight = 0;

  constructor(options: CallQueueOptions = {}) {
    this.#options = options;
    this.#max = options.maxCalls ?? Number.POSITIVE_INFINITY;
  }

  /** The number of calls that wait. */
  get length(): number {
    return this.#waiting;
  }

  /** The time in which the waiting calls begin, in whole seconds. At least 1. */
  get retryAfterSeconds(): number {
    return Math.max(1, Math.ceil(this.#waiting / Math.max(1, this.#perSecond)));
  }

  /** Begins a call at once, unless it must wait. */
  tryBegin(): boolean {
    if (this.#waiting > 0 || this.#begun >= MAX_AT_ONCE || this.inFlight >= this.#max) return false;
    this.#begin();
    return true;
  }

  /**
   * Waits until a call begins, which resolves to undefined, or is refused. Does not resolve if the client disconnects, because
   * then nobody needs the answer.
   */
  wait(request: RequestHead): Promise<OverloadCause | undefined> {
    const caller = this.#options.callerOf?.(request) ?? "";
    if (this.#waiting + this.inFlight >= this.#max) {
      this.#refused++;
      if (!this.#makeRoom(caller)) return Promise.resolve("queue-full");
    }
    return new Promise((end) => {
      const waiting = { request, since: performance.now(), end };
      const calls = this.#callers.get(caller);
      if (calls) calls.push(waiting);
      else this.#callers.set(caller, [waiting]);
      this.#waiting++;
    });
  }

  /**
   * Refuses the oldest call of the caller with the most waiting calls, which may be this caller: the client of a newer call is more
   * likely to wait for the answer. Returns false if no call waits that can make room.
   */
  #makeRoom(caller: string): boolean {
    let [largest, most] = [caller, this.#callers.get(caller)?.length ?? 0];
    for (const [each, { length }] of this.#callers) if (length > most + 1) [largest, most] = [each, length];
    const calls = this.#callers.get(largest);
    if (!calls || calls.length < 2) return false;
    this.#end(calls.shift() as Waiting, "queue-full");
    return true;
  }

  #begin(): void {
    if (this.#begun++ === 0) setImmediate(this.#endTurn);
  }

  readonly #endTurn = () => {
    this.#begun = 0;
    if (this.#waiting > 0) this.#measureRate();
    // At least as many calls begin as were refused, because refusals must not take all of the time.
    const max = MAX_PER_TURN + this.#refused;
    this.#refused = 0;
    while (this.#waiting > 0 && this.#begun < max) this.#endNext();
  };

  #measureRate(): void {
    const ms = performance.now() - this.#measuredSince;
    if (ms < RATE_INTERVAL_MS) return;
    // After a pause without waiting calls, there is nothing to measure.
    if (ms < 2 * RATE_INTERVAL_MS) this.#perSecond = (1000 * this.#ended) / ms;
    this.#measuredSince += ms;
    this.#ended = 0;
  }

  /** Ends the wait of the next caller's oldest call. The caller's next call begins after those of the other callers. */
  #endNext(): void {
    const [caller, calls] = this.#callers.entries().next().value as [string, Waiting[]];
    const next = calls.shift() as Waiting;
    this.#callers.delete(caller);
    if (calls.length > 0) this.#callers.set(caller, calls);
    if (!next.request.isDisconnected) this.#begin();
    this.#end(next, performance.now() - next.since > MAX_WAIT_MS ? "waited-too-long" : undefined);
  }

  #end({ request, since, end }: Waiting, refused: OverloadCause | undefined): void {
    this.#waiting--;
    this.#ended++;
    this.#options.onWaited?.((performance.now() - since) / 1000);
    if (!request.isDisconnected) end(refused);
  }
}
