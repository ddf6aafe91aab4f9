import { setImmediate } from "node:timers";
import type { RequestHead } from "../http-types.ts";

/** The maximum number of calls that begin in one turn of the event loop while no call waits. */
const MAX_AT_ONCE = 64;

/**
 * The number of waiting calls that begin in one turn. They take about a millisecond, so that the calls of other callers are read
 * soon. If other work makes a turn long, such as requests that do not wait or refusals, more begin: as many in each millisecond.
 */
const PER_TURN = 16;
const PER_MS = 3;

/**
 * The number of waiting calls, in equal parts for the callers. The connections of a caller with more are not read: each read
 * call would cost memory and collections. With 1000 connections that want 20 calls each, a worker without this limit answers a
 * sixth of what it can.
 */
const READ_AHEAD = 4096;

/** The longest wait of a call, in milliseconds. Then it is refused. */
export const MAX_WAIT_MS = 2000;

/** The memory for the headers of waiting calls, in bytes. If it is exceeded, the queue is full. */
const MAX_HEADER_MEMORY = 64 * 1024 * 1024;

/** The longest time in `Retry-After`, in seconds. */
const MAX_RETRY_AFTER = 10;

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
  /** The size of its headers. */
  readonly bytes: number;
  /** When it began to wait, by `performance.now()`. */
  readonly since: number;
  /** @param refused undefined if the call begins */
  readonly end: (refused?: OverloadCause) => void;
}

/** A caller with waiting calls. */
interface Caller {
  /** Oldest first. */
  readonly calls: Waiting[];
  /** Functions that continue to read its paused connections, oldest first. */
  readonly paused: (() => void)[];
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
  /** The callers with waiting calls. The first is the next. */
  readonly #callers = new Map<string, Caller>();
  #waiting = 0;
  /** The rate at which waiting calls begin or are refused. Measured while calls wait. */
  #perSecond = Number.POSITIVE_INFINITY;
  #measuredSince = 0;
  #ended = 0;
  /** The number of calls that began in this turn of the event loop. */
  #begun = 0;
  /** The time of the first begin in this turn, by `performance.now()`. */
  #turnBegan = 0;
  /** The size of the headers of all waiting calls, in bytes. */
  #bytes = 0;
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

  /** The time in which the waiting calls begin, in whole seconds, from 1 to 10. */
  get retryAfterSeconds(): number {
    return Math.min(MAX_RETRY_AFTER, Math.max(1, Math.ceil(this.#waiting / Math.max(1, this.#perSecond))));
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
    const name = this.#options.callerOf?.(request) ?? "";
    const bytes = sizeOf(request);
    // One call with long headers may need the memory of many.
    while (this.#waiting + this.inFlight >= this.#max || this.#bytes + bytes > MAX_HEADER_MEMORY)
      if (!this.#makeRoom(name)) return Promise.resolve("queue-full");
    return new Promise((end) => {
      const caller = this.#callers.get(name) ?? { calls: [], paused: [] };
      caller.calls.push({ request, bytes, since: performance.now(), end });
      this.#callers.set(name, caller);
      this.#bytes += bytes;
      this.#waiting++;
      if (!this.#mayRead(caller)) {
        const resume = request.pauseConnection();
        if (resume) caller.paused.push(resume);
      }
    });
  }

  /** Whether further calls of a caller should be read. */
  #mayRead({ calls }: Caller): boolean {
    return calls.length === 0 || calls.length <= READ_AHEAD / this.#callers.size;
  }

  /**
   * Refuses the oldest call of the caller with the most waiting calls, which may be this caller: the client of a newer call is more
   * likely to wait for the answer. Returns false if no call waits that can make room.
   */
  #makeRoom(name: string): boolean {
    let largest = this.#callers.get(name)?.calls ?? [];
    for (const { calls } of this.#callers.values()) if (calls.length > largest.length + 1) largest = calls;
    if (largest.length < 2) return false;
    this.#end(largest.shift() as Waiting, "queue-full");
    return true;
  }

  #begin(): void {
    if (this.#begun++ > 0) return;
    this.#turnBegan = performance.now();
    setImmediate(this.#endTurn);
  }

  readonly #endTurn = () => {
    this.#begun = 0;
    if (this.#waiting === 0) return;
    this.#measureRate();
    const max = Math.max(PER_TURN, PER_MS * (performance.now() - this.#turnBegan));
    while (this.#waiting > 0 && this.#begun < max) this.#beginNext();
  };

  #measureRate(): void {
    const ms = performance.now() - this.#measuredSince;
    if (ms < RATE_INTERVAL_MS) return;
    // After a pause without waiting calls, there is nothing to measure.
    if (ms < 2 * RATE_INTERVAL_MS) this.#perSecond = (1000 * this.#ended) / ms;
    this.#measuredSince += ms;
    this.#ended = 0;
  }

  /**
   * Begins the oldest call of the next caller. If that call has waited for too long, refuses it and begins the newest, because all
   * old ones would be late. The caller's next call begins after those of the other callers.
   */
  #beginNext(): void {
    const [name, caller] = this.#callers.entries().next().value as [string, Caller];
    const { calls, paused } = caller;
    const oldest = calls.shift() as Waiting;
    const isLate = performance.now() - oldest.since > MAX_WAIT_MS;
    const next = isLate ? calls.pop() : oldest;
    this.#callers.delete(name);
    if (calls.length > 0) this.#callers.set(name, caller);
    // One connection for each call, so that not all are read at once. Without a waiting call, none may stay paused.
    const resumed = calls.length === 0 ? paused.length : Number(this.#mayRead(caller));
    for (const resume of paused.splice(0, resumed)) resume();
    if (isLate) this.#end(oldest, "waited-too-long");
    if (!next) return;
    if (!next.request.isDisconnected) this.#begin();
    this.#end(next, undefined);
  }

  #end({ request, bytes, since, end }: Waiting, refused: OverloadCause | undefined): void {
    this.#waiting--;
    this.#bytes -= bytes;
    this.#ended++;
    this.#options.onWaited?.((performance.now() - since) / 1000);
    if (!request.isDisconnected) end(refused);
  }
}

/** The size of the target and the headers of a request, in bytes. */
function sizeOf({ target, headers }: RequestHead): number {
  let bytes = target.length;
  for (const name in headers) bytes += name.length + String(headers[name]).length;
  return bytes;
}
