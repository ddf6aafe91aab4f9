import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Compression, compressedFlag, type UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import { trailerFlag } from "@connectrpc/connect/protocol-grpc-web";
import { compress, inflate, shouldCompress } from "./compression.ts";
import type { CallFormat } from "./content-types.ts";
import { messageTooLarge, type RequestRefused } from "./refusals.ts";
import type { UnaryRoute } from "./unary-route.ts";

/*
 * Envelopes: one byte of flags, four bytes of length, then the message
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). Connect's streams use them as well.
 */

const HEADER_BYTES = 5;

/**
 * Whether the body, judging by what has been read so far, is longer than one message of the allowed size. Leaves room
 * for the envelope header of a trailer or of a second message.
 */
export function exceedsEnvelope(bytes: Uint8Array, maxBytes: number): boolean {
  if (bytes.byteLength > maxBytes + 2 * HEADER_BYTES) return true;
  return bytes.byteLength >= HEADER_BYTES && lengthAt(bytes, 0) > maxBytes;
}

/** The same for a gRPC-Web text body. */
export function exceedsWebText({ byteLength }: Uint8Array, maxBytes: number): boolean {
  return byteLength > Math.ceil((maxBytes + 2 * HEADER_BYTES) / 3) * 4 + 8;
}

/** The refusal of a body that is longer than one message of the allowed size. */
export function messageTooLong(limit: number): RequestRefused {
  return messageTooLarge(limit, `request is larger than one message of configured readMaxBytes ${limit}`);
}

/** Wraps data in an envelope. */
export function envelopeOf(flags: number, data: Uint8Array): Buffer<ArrayBuffer> {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + data.byteLength);
  bytes[0] = flags;
  bytes.writeUInt32BE(data.byteLength, 1);
  bytes.set(data, HEADER_BYTES);
  return bytes;
}

/** Serializes a message into an envelope, compressed if it is large enough. */
export function messageEnvelope(
  message: Message,
  { serialization, responseCompression, method: { options } }: UnaryRoute,
): Uint8Array | Promise<Uint8Array> {
  const bytes = serialization.serializeBehind(HEADER_BYTES, message);
  const length = bytes.byteLength - HEADER_BYTES;
  if (shouldCompress(length, responseCompression, options)) {
    return compress(bytes.subarray(HEADER_BYTES), responseCompression).then((data) => envelopeOf(compressedFlag, data));
  }
  bytes[0] = 0;
  bytes.writeUInt32BE(length, 1);
  return bytes;
}

/** Wraps data in an envelope, compressed if it is large enough. */
export function compressEnvelope(
  flags: number,
  data: Uint8Array,
  compression: Compression | null,
  options: UniversalHandlerOptions,
): Uint8Array<ArrayBuffer> | Promise<Uint8Array<ArrayBuffer>> {
  if (!shouldCompress(data.byteLength, compression, options)) return envelopeOf(flags, data);
  return compress(data, compression).then((compressed) => envelopeOf(flags | compressedFlag, compressed));
}

/** An envelope that was read. */
interface Envelope {
  readonly flags: number;
  /** Decompressed. */
  readonly data: Uint8Array | Promise<Uint8Array>;
}

/** Reads the envelopes of a body one by one. */
export class EnvelopeReader {
  readonly #bytes: Uint8Array;
  readonly #isTruncated: boolean;
  readonly #maxBytes: number;
  readonly #compression: Compression | null;
  #at = 0;

  /** @param maxBytes the size limit of a message, before and after decompression */
  constructor(bytes: Uint8Array, maxBytes: number, compression: Compression | null) {
    // Reading of a body stops somewhere beyond this limit. Truncating it here makes the result independent of where.
    const limit = maxBytes + 2 * HEADER_BYTES;
    this.#isTruncated = bytes.byteLength > limit;
    this.#bytes = this.#isTruncated ? bytes.subarray(0, limit) : bytes;
    this.#maxBytes = maxBytes;
    this.#compression = compression;
  }

  /** The next envelope; undefined at the end. @throws RequestRefused, ConnectError */
  next(): Envelope | undefined {
    const left = this.#bytes.byteLength - this.#at;
    if (left === 0 && !this.#isTruncated) return undefined;
    if (left < HEADER_BYTES) throw this.#incomplete();
    const flags = this.#bytes[this.#at] as number;
    const length = lengthAt(this.#bytes, this.#at);
    const limit = this.#maxBytes;
    if (length > limit) {
      throw messageTooLarge(limit, `message size ${length} is larger than configured readMaxBytes ${limit}`);
    }
    if (left < HEADER_BYTES + length) throw this.#incomplete();
    const start = this.#at + HEADER_BYTES;
    this.#at = start + length;
    const data = this.#bytes.subarray(start, this.#at);
    if ((flags & compressedFlag) !== compressedFlag) return { flags, data };
    if (this.#compression === null) {
      throw new ConnectError("received compressed envelope, but do not know how to decompress", Code.Internal);
    }
    return { flags: flags ^ compressedFlag, data: inflate(data, this.#compression, limit) };
  }

  #incomplete(): Error {
    if (this.#isTruncated) return messageTooLong(this.#maxBytes);
    return new ConnectError("protocol error: incomplete envelope", Code.InvalidArgument);
  }
}

/** The only message of a unary request. @throws RequestRefused, ConnectError */
export function onlyMessage(reader: EnvelopeReader, route: UnaryRoute): Message | Promise<Message> {
  let only: Message | undefined;
  let next = reader.next();
  if (next && !isTrailer(next.flags, route.format) && !(next.data instanceof Promise)) {
    only = route.parse(next.data);
    next = reader.next();
    // Most requests end here, without a promise.
    if (!next) return only;
  }
  const readRest = async (): Promise<Message> => {
    for (; next; next = reader.next()) {
      const data = await next.data;
      if (isTrailer(next.flags, route.format)) continue;
      const message = route.parse(data);
      if (only) {
        throw new ConnectError("protocol error: received extra input message for unary method", Code.Unimplemented);
      }
      only = message;
    }
    if (only) return only;
    throw new ConnectError("protocol error: missing input message for unary method", Code.Unimplemented);
  };
  return readRest();
}

function isTrailer(flags: number, { protocol }: CallFormat): boolean {
  return protocol === "grpc-web" && (flags & trailerFlag) === trailerFlag;
}

function lengthAt(bytes: Uint8Array, at: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset + at, HEADER_BYTES).getUint32(1);
}
