import type { Readable } from "node:stream";
import type { Route } from "../exchange.ts";
import type { BudgetEntry, ConnectionUsage, EvictionReason, MemoryBudget } from "./memory-budget.ts";

/** The route's limit for a body. */
type BodyLimit = Pick<Route, "isTooLong">;

/** The smallest buffer that collects several chunks, in bytes. */
const MIN_BUFFER_BYTES = 4096;

/** How much of a body is inspected for its length, in bytes. An envelope header fits. */
const HEAD_BYTES = 16;

/** Collects the chunks of a body. */
export class BodyBuffer {
  #buffer: Uint8Array | undefined;
  #length = 0;
  /** Whether the buffer is the first chunk itself, not a copy. */
  #isBorrowed = false;
  #head: Uint8Array | undefined;

  /** The memory held, in bytes. A chunk keeps the whole ArrayBuffer alive that it is a view of. */
  get heldBytes(): number {
    return this.#buffer === undefined ? 0 : this.#isBorrowed ? this.#buffer.buffer.byteLength : this.#buffer.byteLength;
  }

  /** The length of the body so far, in bytes. */
  get length(): number {
    return this.#length;
  }

  /** The first bytes of the body: enough for an envelope header, or fewer when fewer arrived. */
  get head(): Uint8Array {
    if (this.#head === undefined || (this.#head.byteLength < HEAD_BYTES && this.#head.byteLength < this.#length)) {
      this.#head = this.bytes();
    }
    return this.#head;
  }

  /**
   * Adds a chunk. Most bodies are a single chunk, which is kept as it is. Further chunks are copied into one buffer,
   * because each chunk would keep a buffer of its own.
   */
  add(chunk: Uint8Array): void {
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
  compact(): void {
    if (this.#isBorrowed && this.#length < this.heldBytes / 2) this.#moveTo(this.#length);
  }

  /** The body so far, without a copy. */
  bytes(): Uint8Array {
    return this.#buffer === undefined ? EMPTY : this.#buffer.subarray(0, this.#length);
  }

  /** Frees the buffer. Whoever was given its bytes keeps them. */
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

/** Callbacks of `collectBody`; exactly one is called, unless the source closes first. */
export interface BodyEvents {
  /**
   * The body is complete, or so long that the rest need not be read. In that case the source keeps flowing and its data
   * is discarded.
   */
  readonly onBody: (body: Uint8Array) => void;
  /** The body was evicted from the memory budget. */
  readonly onEvicted: (reason: EvictionReason) => void;
}

/** Collects the body of a request within the memory budget. */
export function collectBody(
  source: Readable,
  { route, bodies, connection }: { route: BodyLimit; bodies: MemoryBudget; connection: object },
  events: BodyEvents,
): void {
  const body = new BodyCollector(source, route, bodies, connection, events);
  body.start();
}

/** A body that is being received. */
class BodyCollector implements BudgetEntry {
  bytes = 0;
  addedAt = 0;
  readonly connection: ConnectionUsage;
  readonly #source: Readable;
  readonly #route: BodyLimit;
  readonly #bodies: MemoryBudget;
  readonly #events: BodyEvents;
  readonly #received = new BodyBuffer();
  #heldBytes = 0;

  constructor(source: Readable, route: BodyLimit, bodies: MemoryBudget, connection: object, events: BodyEvents) {
    this.#source = source;
    this.#route = route;
    this.#bodies = bodies;
    this.#events = events;
    this.connection = bodies.usageOf(connection);
  }

  start(): void {
    const source = this.#source;
    source.on("data", this.#onData);
    source.once("end", this.#onEnd);
    source.once("close", this.#release);
    this.#bodies.add(this, 0);
    // An empty body may have ended while its route was being found.
    if (source.readableEnded) this.#onEnd();
    // Or the connection may have closed while the request waited in a pipeline.
    else if (source.destroyed) this.#release();
  }

  evict(reason: EvictionReason): void {
    this.#source.off("data", this.#onData);
    this.#received.clear();
    this.#events.onEvicted(reason);
  }

  onTick(): void {
    this.#received.compact();
    this.#account();
  }

  readonly #onData = (chunk: Uint8Array): void => {
    const buffer = this.#received;
    buffer.add(chunk);
    if (this.#route.isTooLong?.(buffer.head, buffer.length)) {
      // Without the listener, further data is discarded.
      this.#source.off("data", this.#onData);
      this.#onEnd();
    } else this.#account();
  };

  readonly #onEnd = (): void => {
    // The body may have been evicted, or may have been too long.
    if (!this.#release()) return;
    const body = this.#received.bytes();
    // The listeners keep this collector for as long as the rest of the request is arriving.
    this.#received.clear();
    this.#events.onBody(body);
  };

  readonly #release = (): boolean => this.#bodies.remove(this);

  #account(): void {
    const heldBytes = this.#received.heldBytes;
    if (heldBytes === this.#heldBytes) return;
    const more = heldBytes - this.#heldBytes;
    this.#heldBytes = heldBytes;
    this.#bodies.adjust(this, more);
  }
}

const EMPTY = new Uint8Array(0);
