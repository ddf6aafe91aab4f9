import type { Readable } from "node:stream";
import type { Route } from "../exchange.ts";
import type { EvictionReason, MemoryBudget, MemoryHolder } from "./memory-budget.ts";

/** The smallest buffer that collects several chunks, in bytes. */
const MIN_BUFFER_BYTES = 4096;

/** Collects the chunks of a body. */
export class BodyBuffer {
  #buffer: Uint8Array | undefined;
  #length = 0;
  /** Whether the buffer is the first chunk itself, not a copy. */
  #isBorrowed = false;

  /** The memory held, in bytes. A chunk keeps the whole ArrayBuffer alive that it is a view of. */
  get heldBytes(): number {
    return this.#buffer === undefined ? 0 : this.#isBorrowed ? this.#buffer.buffer.byteLength : this.#buffer.byteLength;
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
  }

  #moveTo(capacity: number): void {
    const buffer = Buffer.allocUnsafeSlow(Math.max(capacity, MIN_BUFFER_BYTES));
    buffer.set(this.bytes());
    this.#buffer = buffer;
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

/** Collects the body of a request within the memory budget. @param route its limit for the body */
export function collectBody(
  source: Readable,
  { route, bodies, connection }: { route: Pick<Route, "isTooLong">; bodies: MemoryBudget; connection: object },
  { onBody, onEvicted }: BodyEvents,
): void {
  const received = new BodyBuffer();
  const onData = (chunk: Uint8Array) => {
    received.add(chunk);
    if (route.isTooLong?.(received.bytes())) {
      // Without the listener, further data is discarded.
      source.off("data", onData);
      onEnd();
    } else bodies.resize(holder, received.heldBytes);
  };
  const onEnd = () => {
    // The body may have been evicted, or may have been too long.
    if (!release()) return;
    const body = received.bytes();
    // The listeners keep the buffer for as long as the rest of the request is arriving.
    received.clear();
    onBody(body);
  };
  const release = () => bodies.remove(holder);
  const holder: MemoryHolder = {
    connection,
    evict: (reason) => {
      source.off("data", onData);
      received.clear();
      onEvicted(reason);
    },
    onTick: () => {
      received.compact();
      bodies.resize(holder, received.heldBytes);
    },
  };
  source.on("data", onData);
  source.once("end", onEnd);
  source.once("close", release);
  bodies.add(holder, 0);
  // An empty body may have ended while its route was being found.
  if (source.readableEnded) onEnd();
  // Or the connection may have closed while the request waited in a pipeline.
  else if (source.destroyed) release();
}

const EMPTY = new Uint8Array(0);
