import type { Readable } from "node:stream";
import { MAX_DISCARDED_BYTES } from "../limits.ts";

/*
 * Bodies that are not a single chunk of the connection, as most are.
 */

/** The smallest buffer that collects several chunks, in bytes. */
const MIN_BUFFER_BYTES = 4096;

/**
 * Appends a chunk to what has arrived of a body, in one buffer: chunk by chunk each would keep a buffer of its own.
 *
 * @param isCopy whether `body` is a copy already, whose buffer may have room for more
 */
export function append(body: Uint8Array, chunk: Uint8Array, isCopy: boolean): Buffer {
  const length = body.byteLength + chunk.byteLength;
  const hasRoom = isCopy && length <= body.buffer.byteLength;
  const { buffer } = hasRoom ? body : copyOf(body, Math.max(2 * body.byteLength, length));
  const longer = Buffer.from(buffer, 0, length);
  longer.set(chunk, body.byteLength);
  return longer;
}

/** A copy of a body in a buffer of its own, of a capacity in bytes. */
export function copyOf(body: Uint8Array, capacity: number): Buffer {
  const buffer = Buffer.allocUnsafeSlow(Math.max(capacity, MIN_BUFFER_BYTES));
  buffer.set(body);
  return buffer.subarray(0, body.byteLength);
}

/**
 * Reads and discards what arrives, up to 16 MiB, in place of the reader before, which could pause the source or buffer
 * what it reads.
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
