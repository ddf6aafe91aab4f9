import type { Readable } from "node:stream";
import { MAX_DISCARDED_BYTES } from "../limits.ts";

/** The minimum capacity of a buffer that collects chunks, in bytes. */
const MIN_BUFFER_BYTES = 4096;

/**
 * Appends a chunk to the arrived part of a body. The returned bytes are in one buffer.
 *
 * @param isCopy whether `append` or `copyOf` returned `body`. If so, `append` may write to the bytes that follow `body`
 * in its buffer, because no other object uses these bytes
 */
export function append(body: Uint8Array, chunk: Uint8Array, isCopy: boolean): Buffer {
  const length = body.byteLength + chunk.byteLength;
  const hasRoom = isCopy && length <= body.buffer.byteLength;
  const { buffer } = hasRoom ? body : copyOf(body, Math.max(2 * body.byteLength, length));
  const longer = Buffer.from(buffer, 0, length);
  longer.set(chunk, body.byteLength);
  return longer;
}

export function copyOf(body: Uint8Array, capacity: number): Buffer {
  const buffer = Buffer.allocUnsafeSlow(Math.max(capacity, MIN_BUFFER_BYTES));
  buffer.set(body);
  return buffer.subarray(0, body.byteLength);
}

/**
 * Discards the unread data of a source. Removes the previous reader, which could pause the source or buffer the data.
 *
 * @param onTooMuch called for each chunk beyond `MAX_DISCARDED_BYTES`
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
