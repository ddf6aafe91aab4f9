import { clearInterval, setInterval } from "node:timers";

/** Why something that is held is given up. */
export type GiveUpReason = "late" | "crowded";

/** Something incomplete that takes memory until it is complete: half a body, or an answer that nobody reads. */
export interface Held {
  /** What it takes, in bytes; only the holdings change it. */
  bytes: number;
  /** When it began, in beats; only the holdings set it. */
  since: number;
  /** What its connection holds; undefined where the runtime does not tell which one it is. */
  readonly connection: ConnectionHoldings | undefined;
  /** It has taken too long, or there is no room for it; the holdings have let go of it. */
  giveUp(reason: GiveUpReason): void;
  /** It has been there for a beat and may stay: a chance to take less. */
  readonly tend?: (() => void) | undefined;
}

/** What all of one connection takes. */
export interface ConnectionHoldings {
  bytes: number;
}

/** Bounds of holdings. */
export interface HoldingsOptions {
  /** How long each may take to be complete, in milliseconds. */
  readonly timeoutMs: number;
  /** How much all may take, in bytes; beyond it the oldest is given up. */
  readonly maxBytes: number;
  /** How much those of one connection may take, in bytes; beyond it the one that wants more is given up. */
  readonly maxConnectionBytes: number;
  /** What one costs besides its bytes, in bytes: the objects around it. Without it empty ones would be free. */
  readonly ownBytes: number;
}

/** Time is told in this many beats for each timeout, so that there is one timer for all and none for each. */
const BEATS_PER_TIMEOUT = 8;

/**
 * Bounds what incomplete requests, or answers, take and how long. Adding and
 * removing one costs two operations on a set: nearly all of them are complete
 * at once.
 */
export class Holdings {
  readonly #options: HoldingsOptions;
  readonly #held = new Set<Held>();
  readonly #connections = new WeakMap<object, ConnectionHoldings>();
  readonly #everyBeat = () => this.#beatOnce();
  #timer: NodeJS.Timeout | undefined;
  #beat = 0;
  #bytes = 0;

  constructor(options: HoldingsOptions) {
    this.#options = options;
  }

  /** What a connection holds. */
  of(connection: object): ConnectionHoldings {
    let holdings = this.#connections.get(connection);
    if (holdings === undefined) {
      holdings = { bytes: 0 };
      this.#connections.set(connection, holdings);
    }
    return holdings;
  }

  /** Holds something; it may be given up at once. */
  add(held: Held, bytes: number): void {
    held.since = this.#beat;
    this.#held.add(held);
    if (this.#timer === undefined) {
      this.#timer = setInterval(this.#everyBeat, this.#options.timeoutMs / BEATS_PER_TIMEOUT).unref();
    }
    this.#take(held, this.#options.ownBytes + bytes);
    this.#makeRoom(held);
  }

  /** Something takes more, or less where `bytes` is negative; it may be given up at once. */
  grow(held: Held, bytes: number): void {
    if (!this.#held.has(held)) return;
    this.#take(held, bytes);
    if (bytes > 0) this.#makeRoom(held);
  }

  /** Lets go of something; false when that was done before. */
  remove(held: Held): boolean {
    if (!this.#held.delete(held)) return false;
    this.#take(held, -held.bytes);
    return true;
  }

  #take(held: Held, bytes: number): void {
    held.bytes += bytes;
    this.#bytes += bytes;
    if (held.connection) held.connection.bytes += bytes;
  }

  #makeRoom(newest: Held): void {
    const { maxBytes, maxConnectionBytes } = this.#options;
    if (newest.connection && newest.connection.bytes > maxConnectionBytes) this.#giveUp(newest, "crowded");
    // The oldest has waited longest for a caller who does not go on; a new one is likely to be complete soon.
    while (this.#bytes > maxBytes) {
      const oldest = this.#held.values().next();
      if (oldest.done) return;
      this.#giveUp(oldest.value, "crowded");
    }
  }

  #giveUp(held: Held, reason: GiveUpReason): void {
    if (this.remove(held)) held.giveUp(reason);
  }

  #beatOnce(): void {
    this.#beat++;
    for (const held of this.#held) {
      const age = this.#beat - held.since;
      // The first beat may come right after it began.
      if (age > BEATS_PER_TIMEOUT) this.#giveUp(held, "late");
      else if (age > 1) held.tend?.();
    }
    if (this.#held.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
