import type { Readable } from "node:stream";

/** The smallest buffer that collects several chunks, in bytes. */
const MIN_BUFFER_BYTES = 4096;

/** How much of an already answered request is read and discarded, in bytes. */
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;

/** A request without a body has this one. */
export const EMPTY = new Uint8Array(0);

/** The body of a request while it arrives. Most bodies are a single chunk, which is kept as it is. */
export class ArrivingBody {
  readonly source: Readable;
  #buffer: Uint8Array = EMPTY;
  #length = 0;
  /** Whether the buffer is the first chunk itself, not a copy. */
  #isBorrowed = true;

  constructor(source: Readable) {
    this.source = source;
  }

  /** What has arrived, without a copy. */
  get bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.#length);
  }

  /** The memory held, in bytes. A chunk keeps the whole ArrayBuffer alive that it is a view of. */
  get heldBytes(): number {
    return this.#isBorrowed ? this.#buffer.buffer.byteLength : this.#buffer.byteLength;
  }

  /** Adds a chunk. Further chunks are copied into one buffer, because each chunk would keep a buffer of its own. */
  add(chunk: Uint8Array): void {
    const length = this.#length + chunk.byteLength;
    if (this.#length === 0) {
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

  #moveTo(capacity: number): void {
    const buffer = Buffer.allocUnsafeSlow(Math.max(capacity, MIN_BUFFER_BYTES));
    buffer.set(this.bytes);
    this.#buffer = buffer;
    this.#isBorrowed = false;
  }
}

/**
 * Reads and discards what arrives, up to 16 MiB, in place of the former reader, which could pause the source or buffer what
 * it reads.
 *
 * @param onTooMuch called with each chunk after that
 */
export function discard(source: Readable, onTooMuch: () => void): void {
  if (source.destroyed) return;
  source.removeAllListeners("data");
  let left = MAX_DISCARDED_BYTES;
  source.on("data", (chunk: Uint8Array) => {
    left -= chunk.byteLength;
    if (left < 0) onTooMuch();
  });
  source.resume();
}
