import type { Readable } from "node:stream";
import type { Route } from "../exchange.ts";
import type { Charge, EvictionReason, Holding, Turn, Unfinished } from "./client-budget.ts";

/** The smallest buffer that collects several chunks, in bytes. */
const MIN_BUFFER_BYTES = 4096;

const EMPTY = new Uint8Array(0);

/** Who a body is collected for. `onBody` or `onBodyEvicted` is called, unless the source closes first. */
export interface BodyReceiver {
  readonly turn: Turn;
  /**
   * The body is complete, or so long that the rest need not be read. In that case the source keeps flowing and its data
   * is discarded.
   */
  onBody(body: Uint8Array): void;
  onBodyEvicted(reason: EvictionReason): void;
  /** Has the client charged for a body; undefined when there is no room. */
  chargeBody(body: Holding, bytes: number): Charge | undefined;
}

/** The body of a request while it arrives. One that arrives within a turn of the event loop is not charged. */
export class IncomingBody implements Holding, Unfinished {
  readonly #source: Readable;
  readonly #route: Pick<Route, "isTooLong">;
  readonly #receiver: BodyReceiver;
  readonly #onData = (chunk: Uint8Array) => this.#take(chunk);
  #buffer: Uint8Array | undefined;
  #length = 0;
  /** Whether the buffer is the first chunk itself, not a copy. */
  #isBorrowed = false;
  /** Handed over or given up. */
  #isOver = false;
  #charge: Charge | undefined;

  /** @param route its limit for the body */
  constructor(source: Readable, route: Pick<Route, "isTooLong">, receiver: BodyReceiver) {
    this.#source = source;
    this.#route = route;
    this.#receiver = receiver;
    source.on("data", this.#onData);
    source.once("end", () => this.#end());
    // An empty body may have ended while its route was being found.
    if (source.readableEnded) this.#end();
    else receiver.turn.begin(this);
  }

  outliveTurn(): void {
    const source = this.#source;
    // The connection may have closed while the request waited in a pipeline.
    if (this.#isOver || source.destroyed) return;
    this.#compact();
    const charge = this.#receiver.chargeBody(this, this.#heldBytes);
    this.#charge = charge;
    if (charge) source.once("close", () => charge.budget.release(charge));
    else this.evict("over-budget");
  }

  evict(reason: EvictionReason): void {
    this.#isOver = true;
    this.#source.off("data", this.#onData);
    this.#buffer = undefined;
    this.#receiver.onBodyEvicted(reason);
  }

  #take(chunk: Uint8Array): void {
    this.#add(chunk);
    if (this.#route.isTooLong?.(this.#bytes())) {
      // Without the listener, further data is discarded.
      this.#source.off("data", this.#onData);
      this.#end();
    } else if (this.#charge) {
      // The body is slow, so what it holds may be held for long.
      this.#compact();
      this.#charge.budget.resize(this.#charge, this.#heldBytes);
    }
  }

  #end(): void {
    // It may have been evicted, or may have been too long.
    if (this.#isOver) return;
    this.#isOver = true;
    this.#charge?.budget.release(this.#charge);
    const body = this.#bytes();
    // The listeners keep the buffer for as long as the rest of the request is arriving.
    this.#buffer = undefined;
    this.#receiver.onBody(body);
  }

  /** The memory held, in bytes. A chunk keeps the whole ArrayBuffer alive that it is a view of. */
  get #heldBytes(): number {
    return this.#buffer === undefined ? 0 : this.#isBorrowed ? this.#buffer.buffer.byteLength : this.#buffer.byteLength;
  }

  /**
   * Adds a chunk. Most bodies are a single chunk, which is kept as it is. Further chunks are copied into one buffer,
   * because each chunk would keep a buffer of its own.
   */
  #add(chunk: Uint8Array): void {
    const length = this.#length + chunk.byteLength;
    if (this.#buffer === undefined) {
      this.#buffer = chunk;
      this.#isBorrowed = true;
    } else {
      if (this.#isBorrowed || length > this.#buffer.byteLength) this.#moveTo(Math.max(2 * this.#length, length));
      this.#buffer.set(chunk, this.#length);
    }
    this.#length = length;
  }

  /** Copies a chunk that is a small part of a larger buffer. This only pays off for bodies that stay incomplete. */
  #compact(): void {
    if (this.#isBorrowed && this.#length < this.#heldBytes / 2) this.#moveTo(this.#length);
  }

  /** The body so far, without a copy. */
  #bytes(): Uint8Array {
    return this.#buffer === undefined ? EMPTY : this.#buffer.subarray(0, this.#length);
  }

  #moveTo(capacity: number): void {
    const buffer = Buffer.allocUnsafeSlow(Math.max(capacity, MIN_BUFFER_BYTES));
    buffer.set(this.#bytes());
    this.#buffer = buffer;
    this.#isBorrowed = false;
  }
}
