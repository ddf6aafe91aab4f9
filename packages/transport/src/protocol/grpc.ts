import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { compressedFlag } from "@connectrpc/connect/protocol";
import * as grpc from "@connectrpc/connect/protocol-grpc";
import * as grpcWeb from "@connectrpc/connect/protocol-grpc-web";
import { bodyBytes, type HeaderRecord, type HttpResponse, whenKnown } from "../http-types.ts";
import { compress, inflate } from "./compression.ts";
import { type CallFormat, recordOf } from "./headers.ts";
import { messageTooLarge, type RefusalError } from "./refusals.ts";
import type { UnaryExchange, UnaryProtocol } from "./unary-protocol.ts";
import { decodeWebText } from "./web-text.ts";

/** The length of the prefix of an envelope, in bytes. The prefix contains the flags and the length of the message. */
const PREFIX_BYTES = 5;
const LENGTH_AT = 1;

/**
 * The number of bytes that a body may have in addition to one message. The number suffices for the prefix of the
 * message, and for the prefix of a trailer or of a second message.
 */
const MORE_BYTES = 2 * PREFIX_BYTES;

const EMPTY = Buffer.alloc(0);

/**
 * Unary calls of the gRPC protocol (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) and of gRPC-Web
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md).
 */
export const grpcProtocol: UnaryProtocol = {
  parseTimeout: grpc.parseTimeout,
  timeoutHeader: "grpc-timeout",
  encodingHeader: "grpc-encoding",
  acceptHeader: "grpc-accept-encoding",
  moreBytes: MORE_BYTES,
  trailers: { "grpc-status": grpc.grpcStatusOk },
  alwaysNamesEncoding: true,

  decode({ body }, exchange) {
    const { format, maxMessageBytes } = exchange;
    // If a body is longer than `maxBytes`, the transport has not read the end of the body, so base64 decoding could
    // fail.
    if (format.isText && body.byteLength > exchange.maxBytes) throw messageTooLong(maxMessageBytes);
    const bytes = format.isText ? decodeWebText(body) : body;
    const length = bytes.byteLength - PREFIX_BYTES;
    // Most bodies consist of one uncompressed envelope.
    const isPlain =
      length >= 0 && length <= maxMessageBytes && bytes[0] === 0 && bytes.readUInt32BE(LENGTH_AT) === length;
    return isPlain ? exchange.parse(bytes.subarray(PREFIX_BYTES)) : onlyMessage(bytes, exchange);
  },

  headroom: PREFIX_BYTES,
  seal,
  respond,

  respondError(error, exchange) {
    grpc.setTrailerStatus(exchange.call.responseTrailer, wellFormed(error));
    return respond(EMPTY, exchange);
  },
};

/** Decodes the only message of a unary request. Rejects with RefusalError or ConnectError. */
async function onlyMessage(body: Buffer, exchange: UnaryExchange): Promise<Message> {
  const { format, maxMessageBytes, requestCompression } = exchange;
  // If a body is too long, the transport stops reading it after a varying number of bytes. Truncate the body to a fixed
  // length, so that the client always receives the same error.
  const isTruncated = body.byteLength > maxMessageBytes + MORE_BYTES;
  let rest = body.subarray(0, maxMessageBytes + MORE_BYTES);
  let only: Message | undefined;
  while (rest.byteLength > 0 || isTruncated) {
    const length = rest.byteLength < PREFIX_BYTES ? 0 : rest.readUInt32BE(LENGTH_AT);
    if (length > maxMessageBytes) {
      throw messageTooLarge(
        maxMessageBytes,
        `message size ${length} is larger than configured readMaxBytes ${maxMessageBytes}`,
      );
    }
    if (rest.byteLength < PREFIX_BYTES + length) {
      if (isTruncated) throw messageTooLong(maxMessageBytes);
      throw new ConnectError("protocol error: incomplete envelope", Code.InvalidArgument);
    }
    const flags = rest[0] as number;
    let data = rest.subarray(PREFIX_BYTES, PREFIX_BYTES + length);
    rest = rest.subarray(PREFIX_BYTES + length);
    if (flags & compressedFlag) {
      if (requestCompression === null) {
        throw new ConnectError("received compressed envelope, but do not know how to decompress", Code.Internal);
      }
      data = await inflate(data, requestCompression, maxMessageBytes);
    }
    if (format.protocol === "grpc-web" && flags & grpcWeb.trailerFlag) continue;
    const message = exchange.parse(data);
    if (only) {
      throw new ConnectError("protocol error: received extra input message for unary method", Code.Unimplemented);
    }
    only = message;
  }
  if (only) return only;
  throw new ConnectError("protocol error: missing input message for unary method", Code.Unimplemented);
}

/**
 * Writes the prefix of an envelope to the first five bytes of the envelope. Compresses the message if the client
 * accepts a compression and the message has at least `compressMinBytes` bytes.
 */
function seal(envelope: Buffer, exchange: UnaryExchange, flags = 0): Buffer | Promise<Buffer> {
  const { responseCompression, method } = exchange;
  const length = envelope.byteLength - PREFIX_BYTES;
  if (responseCompression && length >= method.options.compressMinBytes) {
    const data = compress(envelope.subarray(PREFIX_BYTES), responseCompression);
    return data.then((compressed) => envelopeOf(flags | compressedFlag, compressed));
  }
  envelope[0] = flags;
  envelope.writeUInt32BE(length, LENGTH_AT);
  return envelope;
}

/** Wraps data in an envelope of gRPC or of Connect's streams. */
export function envelopeOf(flags: number, data: Uint8Array): Buffer {
  const envelope = Buffer.concat([Buffer.alloc(PREFIX_BYTES), data]);
  envelope[0] = flags;
  envelope.writeUInt32BE(data.byteLength, LENGTH_AT);
  return envelope;
}

function messageTooLong(maxMessageBytes: number): RefusalError {
  return messageTooLarge(
    maxMessageBytes,
    `request is larger than one message of configured readMaxBytes ${maxMessageBytes}`,
  );
}

function respond(body: HttpResponse["body"], exchange: UnaryExchange): HttpResponse | Promise<HttpResponse> {
  const { call, format } = exchange;
  const headers = recordOf(call.responseHeader);
  if (format.protocol === "grpc") return { status: 200, headers, body, trailers: recordOf(call.responseTrailer) };
  // gRPC-Web sends its trailers in the body.
  const trailer = Buffer.concat([Buffer.alloc(PREFIX_BYTES), grpcWeb.trailerSerialize(call.responseTrailer)]);
  return whenKnown(seal(trailer, exchange, grpcWeb.trailerFlag), (last) => {
    const envelopes = [bodyBytes(body), last];
    // gRPC-Web text encodes each envelope separately.
    const text = () => Buffer.from(envelopes.map((envelope) => envelope.toString("base64")).join(""));
    return { status: 200, headers, body: format.isText ? text() : Buffer.concat(envelopes) };
  });
}

/**
 * Creates a response that contains only an error. gRPC sends the trailers as headers. gRPC-Web sends the trailers in
 * the body.
 */
export function errorOnly(format: CallFormat, error: ConnectError): HttpResponse {
  const trailers = grpc.setTrailerStatus(new Headers(), wellFormed(error));
  const headers: HeaderRecord = { "content-type": format.responseType };
  if (format.protocol === "grpc") return { status: 200, headers: { ...headers, ...recordOf(trailers) }, body: "" };
  const bytes = envelopeOf(grpcWeb.trailerFlag, grpcWeb.trailerSerialize(trailers));
  const body = format.isText ? Buffer.from(bytes.toString("base64")) : bytes;
  return { status: 200, headers: { ...headers, "content-length": String(body.byteLength) }, body };
}

/** Replaces lone surrogates in the message of an error, because percent-encoding throws for a lone surrogate. */
function wellFormed(error: ConnectError): ConnectError {
  const { rawMessage, code, metadata, details } = error;
  if (rawMessage.isWellFormed()) return error;
  const copy = new ConnectError(rawMessage.toWellFormed(), code, metadata);
  copy.details = details;
  return copy;
}
