import { clearTimeout, setTimeout } from "node:timers";
import { MAX_TIMER_MS } from "../limits.ts";

/** Limits of streaming calls. */
export interface OpenStreamsOptions {
  /** How many streams may be open at once. Default: no limit. */
  readonly max?: number | undefined;
  /** How many streams one connection may have open. Default: no limit. */
  readonly maxPerConnection?: number | undefined;
  /** How long a stream may last, in milliseconds. The client may then call again. Default: no limit. */
  readonly lifetimeMs?: number | undefined;
}

/** How long a stream may outlive its deadline when its client does not read, in milliseconds. */
const UNREAD_MS = 30_000;

/** Limits how many streams are open, and for how long. */
export class OpenStreams {
  /** How long a stream may last, in milliseconds. Its deadline has to be limited to it. */
  readonly lifetimeMs: number;
  readonly #max: number;
  readonly #maxPerConnection: number;
  readonly #ofConnection = new WeakMap<object, number>();
  #open = 0;

  constructor({ max = Infinity, maxPerConnection = Infinity, lifetimeMs = Infinity }: OpenStreamsOptions = {}) {
    this.#max = max;
    this.#maxPerConnection = maxPerConnection;
    this.lifetimeMs = lifetimeMs;
  }

  /**
   * Admits a stream. Returns the function to call when the stream has ended, of which only the first call counts;
   * undefined when too many streams are open.
   *
   * @param end ends the stream when its lifetime is over
   */
  enter(connection: object, end: () => void): (() => void) | undefined {
    if (this.#open >= this.#max) return undefined;
    if (this.countOf(connection) >= this.#maxPerConnection) return undefined;
    this.#count(connection, 1);
    let isOpen = true;
    const leave = () => {
      clearTimeout(timer);
      if (isOpen) this.#count(connection, -1);
      isOpen = false;
    };
    const timer = this.#startLifetimeTimer(() => {
      leave();
      end();
    });
    return leave;
  }

  /** How many streams of a connection are open. */
  countOf(connection: object): number {
    return this.#ofConnection.get(connection) ?? 0;
  }

  #count(connection: object, by: 1 | -1): void {
    this.#open += by;
    this.#ofConnection.set(connection, this.countOf(connection) + by);
  }

  /** The deadline normally ends a stream. This timer ends streams whose client does not read. */
  #startLifetimeTimer(then: () => void): NodeJS.Timeout | undefined {
    const ms = this.lifetimeMs + Math.min(UNREAD_MS, this.lifetimeMs);
    return ms > MAX_TIMER_MS ? undefined : setTimeout(then, ms).unref();
  }
}
