import type { Readable } from "node:stream";
import type { ConnectionHoldings, GiveUpReason, Held, Holdings } from "./holdings.ts";
import type { Route } from "./wire.ts";

/** What tells how long a body may be. */
type BodyLimit = Pick<Route, "isTooLong">;

/** The least that a buffer for several pieces holds, in bytes. */
const MIN_BUFFER_BYTES = 4096;

/** What of a body is looked at to tell how long it is; the header of an envelope fits. */
const HEAD_BYTES = 16;

/** The bytes of a body that comes in pieces. */
export class Pieces {
  #buffer: Uint8Array | undefined;
  #length = 0;
  /** Whether the buffer is the first piece, as it came. */
  #isBorrowed = false;
  #head: Uint8Array | undefined;

  /** What is kept, in bytes: a piece keeps the whole buffer that it came in. */
  get keptBytes(): number {
    return this.#buffer === undefined ? 0 : this.#isBorrowed ? this.#buffer.buffer.byteLength : this.#buffer.byteLength;
  }

  /** How long the body is so far, in bytes. */
  get length(): number {
    return this.#length;
  }

  /** The first bytes, more of them than an envelope's header has unless fewer came. */
  get head(): Uint8Array {
    if (this.#head === undefined || (this.#head.byteLength < HEAD_BYTES && this.#head.byteLength < this.#length)) {
      this.#head = this.bytes();
    }
    return this.#head;
  }

  /** Adds a piece. Most bodies are one, which is kept as it is; several are copied, for each has a buffer of its own. */
  add(piece: Uint8Array): void {
    const length = this.#length + piece.byteLength;
    if (this.#buffer === undefined) {
      this.#buffer = piece;
      this.#isBorrowed = true;
    } else {
      if (this.#isBorrowed || length > this.#buffer.byteLength) this.#moveTo(Math.max(2 * this.#length, length));
      this.#buffer.set(piece, this.#length);
    }
    this.#length = length;
  }

  /** Copies what came in a larger buffer; there is nothing to gain before it is known that the body is not complete. */
  compact(): void {
    if (this.#isBorrowed && this.#length < this.keptBytes / 2) this.#moveTo(this.#length);
  }

  /** The body so far, not copied. */
  bytes(): Uint8Array {
    return this.#buffer === undefined ? EMPTY : this.#buffer.subarray(0, this.#length);
  }

  /** Lets go of the bytes; whoever was given them keeps them. */
  clear(): void {
    this.#buffer = undefined;
    this.#head = undefined;
  }

  #moveTo(capacity: number): void {
    const buffer = Buffer.allocUnsafeSlow(Math.max(capacity, MIN_BUFFER_BYTES));
    buffer.set(this.bytes());
    this.#buffer = buffer;
    this.#head = undefined;
    this.#isBorrowed = false;
  }
}

/** What becomes of a body. */
export interface BodyEvents {
  /** It is complete, or so long that the rest need not be read; then the source is left flowing to nowhere. */
  readonly onBody: (body: Uint8Array) => void;
  /** It did not come in time, or there is no room for it. */
  readonly onGivenUp: (reason: GiveUpReason) => void;
}

/** Collects the body of a request. */
export function collectBody(
  source: Readable,
  { route, bodies, connection }: { route: BodyLimit; bodies: Holdings; connection: object },
  events: BodyEvents,
): void {
  const body = new Collection(source, route, bodies, connection, events);
  body.start();
}

/** A body on its way. */
class Collection implements Held {
  bytes = 0;
  since = 0;
  readonly connection: ConnectionHoldings;
  readonly #source: Readable;
  readonly #route: BodyLimit;
  readonly #bodies: Holdings;
  readonly #events: BodyEvents;
  readonly #pieces = new Pieces();
  #kept = 0;

  constructor(source: Readable, route: BodyLimit, bodies: Holdings, connection: object, events: BodyEvents) {
    this.#source = source;
    this.#route = route;
    this.#bodies = bodies;
    this.#events = events;
    this.connection = bodies.of(connection);
  }

  start(): void {
    const source = this.#source;
    source.on("data", this.#onData);
    source.once("end", this.#onEnd);
    source.once("close", this.#letGo);
    this.#bodies.add(this, 0);
  }

  giveUp(reason: GiveUpReason): void {
    this.#source.off("data", this.#onData);
    this.#pieces.clear();
    this.#events.onGivenUp(reason);
  }

  tend(): void {
    this.#pieces.compact();
    this.#account();
  }

  readonly #onData = (piece: Uint8Array): void => {
    const pieces = this.#pieces;
    pieces.add(piece);
    if (this.#route.isTooLong?.(pieces.head, pieces.length)) {
      // What still comes goes nowhere.
      this.#source.off("data", this.#onData);
      this.#onEnd();
    } else this.#account();
  };

  readonly #onEnd = (): void => {
    // It may have been given up, or have been too long.
    if (!this.#letGo()) return;
    const body = this.#pieces.bytes();
    // Listeners keep this for as long as the rest of the request is coming.
    this.#pieces.clear();
    this.#events.onBody(body);
  };

  readonly #letGo = (): boolean => this.#bodies.remove(this);

  #account(): void {
    const kept = this.#pieces.keptBytes;
    if (kept === this.#kept) return;
    const more = kept - this.#kept;
    this.#kept = kept;
    this.#bodies.grow(this, more);
  }
}

const EMPTY = new Uint8Array(0);
