import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type Compression,
  compressedFlag,
  compressionNegotiate,
  type UniversalHandlerOptions,
} from "@connectrpc/connect/protocol";
import * as grpc from "@connectrpc/connect/protocol-grpc";
import * as grpcWeb from "@connectrpc/connect/protocol-grpc-web";
import {
  asConnectError,
  bodyBytes,
  compress,
  field,
  type Hooks,
  makeCall,
  openCall,
  type WireRequest,
  type WireResponse,
  worthCompressing,
} from "../wire.ts";
import type { Admitted } from "./admission.ts";
import type { UnaryCall } from "./call.ts";
import type { Serialization, UnaryMethod } from "./methods.ts";
import { type HeaderRecord, LeanHeaders, recordOf } from "./record-headers.ts";
import { decodeWebText, webTextType } from "./web-text.ts";

const ENCODING = "grpc-encoding";
const ACCEPT_ENCODING = "grpc-accept-encoding";
const HEADER_BYTES = 5;
const EMPTY = new Uint8Array(0);

/** How the messages of a gRPC or gRPC-Web request are written. */
export interface GrpcType {
  /** gRPC-Web: the trailers are the last envelope of the body. */
  readonly web: boolean;
  /** gRPC-Web text: the body is base64. */
  readonly text: boolean;
  /** Binary messages, else JSON. */
  readonly binary: boolean;
}

/**
 * Serves a unary request of the gRPC protocol
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) or of
 * gRPC-Web (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md).
 */
export function serveGrpc(
  method: UnaryMethod,
  request: WireRequest,
  type: GrpcType,
  admitted: Admitted,
  hooks: Hooks,
): Promise<WireResponse> {
  const { options } = method;
  const serialization = type.binary ? method.binary : method.json;
  const { headers } = request;
  const timeout = grpc.parseTimeout(field(headers, "grpc-timeout"), options.maxTimeoutMs);
  const compression = compressionNegotiate(
    options.acceptCompression,
    field(headers, ENCODING),
    field(headers, ACCEPT_ENCODING),
    ACCEPT_ENCODING,
  );
  const responseHeader: WireResponse["headers"] = { "content-type": grpcContentType(type) };
  if (compression.response) responseHeader[ENCODING] = compression.response.name;
  const opening = {
    method,
    protocolName: type.web ? "grpc-web" : "grpc",
    timeoutMs: timeout.timeoutMs,
    responseHeader,
    responseTrailer: { "grpc-status": grpc.grpcStatusOk },
  };
  const decode = () => {
    if (compression.error) throw compression.error;
    if (timeout.error) throw timeout.error;
    const body = type.text ? decodeText(request.body, options.readMaxBytes) : request.body;
    const reader = new EnvelopeReader(body, options, compression.request);
    return onlyMessage(reader, type, serialization.parse);
  };

  const call = openCall(request, opening, admitted);
  const finish = type.web
    ? (body: Uint8Array) => finishWeb(call, type, body, compression.response, options)
    : (body: Uint8Array) => response(call, body, recordOf(call.responseTrailer));
  const fail = (reason: unknown, error: ConnectError) => {
    call.end(reason);
    grpc.setTrailerStatus(call.responseTrailer, wellFormed(error));
    return finish(EMPTY);
  };
  const failToSend = (reason: unknown) => {
    const error = ConnectError.from(reason, Code.Internal);
    return fail(error, error);
  };
  const send = (body: Uint8Array) => {
    call.end();
    return finish(body);
  };
  return makeCall(call, decode, hooks).then(
    (message) => {
      try {
        const framed = compression.response === null ? frameOf(serialization, message) : undefined;
        if (framed) return send(framed);
        const body = envelope(0, bodyBytes(serialization.serialize(message)), compression.response, options);
        // Most answers are not compressed, and need no promise.
        return body instanceof Promise ? body.then(send, failToSend) : send(body);
      } catch (reason) {
        return failToSend(reason);
      }
    },
    (reason) => fail(reason, asConnectError(reason)),
  );
}

function response(call: UnaryCall, body: Uint8Array, trailers?: HeaderRecord): WireResponse {
  return { status: 200, headers: recordOf(call.responseHeader), body, ...(trailers && { trailers }) };
}

/** gRPC-Web has its trailers in the body. */
async function finishWeb(
  call: UnaryCall,
  type: GrpcType,
  body: Uint8Array,
  compression: Compression | null,
  options: UniversalHandlerOptions,
): Promise<WireResponse> {
  const trailer = grpcWeb.trailerSerialize(call.responseTrailer);
  const last = await envelope(grpcWeb.trailerFlag, trailer, compression, options);
  if (!type.text) return response(call, Buffer.concat([body, last]));
  return response(call, Buffer.from(Buffer.from(body).toString("base64") + Buffer.from(last).toString("base64")));
}

/** The trailer of a call that failed, as a record. */
export function grpcTrailer(error: ConnectError): HeaderRecord {
  const trailer = new LeanHeaders({}, true);
  grpc.setTrailerStatus(trailer, wellFormed(error));
  return recordOf(trailer);
}

/** The body of an answer of gRPC-Web that is an error alone. */
export function webTrailer({ text }: GrpcType, error: ConnectError): Uint8Array {
  const trailer = grpc.setTrailerStatus(new LeanHeaders({}, true), wellFormed(error));
  const bytes = frame(grpcWeb.trailerFlag, grpcWeb.trailerSerialize(trailer));
  return text ? Buffer.from(bytes.toString("base64")) : bytes;
}

/**
 * Whether the body that was read so far cannot be one message of the size
 * allowed, with room for a trailer's or a second message's header.
 */
export function exceedsEnvelope(bytes: Uint8Array, total: number, maxBytes: number): boolean {
  if (total > maxBytes + 2 * HEADER_BYTES) return true;
  return bytes.byteLength >= HEADER_BYTES && envelopeLength(bytes, 0) > maxBytes;
}

/** The same of a gRPC-Web text body. */
export function exceedsText(_text: Uint8Array, total: number, maxBytes: number): boolean {
  return total > Math.ceil((maxBytes + 2 * HEADER_BYTES) / 3) * 4 + 8;
}

/** The content type of an answer. */
export function grpcContentType({ web, text, binary }: GrpcType): string {
  if (text) return webTextType(binary);
  const of = web ? grpcWeb : grpc;
  return binary ? of.contentTypeProto : of.contentTypeJson;
}

function envelopeLength(bytes: Uint8Array, at: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset + at, HEADER_BYTES).getUint32(1);
}

/** Takes the envelopes of a body one by one. */
class EnvelopeReader {
  readonly #bytes: Uint8Array;
  readonly #isCut: boolean;
  readonly #options: UniversalHandlerOptions;
  readonly #compression: Compression | null;
  #at = 0;

  constructor(bytes: Uint8Array, options: UniversalHandlerOptions, compression: Compression | null) {
    // A body that is longer than this is not read to its end; how far it was read must not matter.
    const limit = options.readMaxBytes + 2 * HEADER_BYTES;
    this.#isCut = bytes.byteLength > limit;
    this.#bytes = this.#isCut ? bytes.subarray(0, limit) : bytes;
    this.#options = options;
    this.#compression = compression;
  }

  /** The next envelope; undefined at the end. */
  next(): { readonly flags: number; readonly data: Uint8Array | Promise<Uint8Array> } | undefined {
    const left = this.#bytes.byteLength - this.#at;
    if (left === 0 && !this.#isCut) return undefined;
    if (left < HEADER_BYTES) throw this.#incomplete();
    const flags = this.#bytes[this.#at] as number;
    const length = envelopeLength(this.#bytes, this.#at);
    const { readMaxBytes } = this.#options;
    if (length > readMaxBytes) {
      const message = `message size ${length} is larger than configured readMaxBytes ${readMaxBytes}`;
      throw new ConnectError(message, Code.ResourceExhausted);
    }
    if (left < HEADER_BYTES + length) throw this.#incomplete();
    const start = this.#at + HEADER_BYTES;
    this.#at = start + length;
    const data = this.#bytes.subarray(start, this.#at);
    if ((flags & compressedFlag) !== compressedFlag) return { flags, data };
    if (this.#compression === null) {
      throw new ConnectError("received compressed envelope, but do not know how to decompress", Code.Internal);
    }
    return {
      flags: flags ^ compressedFlag,
      data: this.#compression.decompress(data as Uint8Array<ArrayBuffer>, readMaxBytes),
    };
  }

  #incomplete(): ConnectError {
    if (this.#isCut) return tooLong(this.#options.readMaxBytes);
    return new ConnectError("protocol error: incomplete envelope", Code.InvalidArgument);
  }
}

/** The only message of a unary request. */
function onlyMessage(
  reader: EnvelopeReader,
  type: GrpcType,
  parse: (bytes: Uint8Array) => Message,
): Message | Promise<Message> {
  const first = reader.next();
  if (first && !isTrailer(first.flags, type) && !(first.data instanceof Promise)) {
    const message = parse(first.data);
    // Most requests end here, and need no promise.
    const second = reader.next();
    if (!second) return message;
    return allMessages(reader, type, parse, [message], second);
  }
  return allMessages(reader, type, parse, [], first);
}

async function allMessages(
  reader: EnvelopeReader,
  type: GrpcType,
  parse: (bytes: Uint8Array) => Message,
  messages: Message[],
  from: ReturnType<EnvelopeReader["next"]>,
): Promise<Message> {
  for (let next = from; next !== undefined; next = reader.next()) {
    const data = await next.data;
    if (isTrailer(next.flags, type)) continue;
    messages.push(parse(data));
    if (messages.length > 1) {
      throw new ConnectError("protocol error: received extra input message for unary method", Code.Unimplemented);
    }
  }
  const [message] = messages;
  if (!message) throw new ConnectError("protocol error: missing input message for unary method", Code.Unimplemented);
  return message;
}

function isTrailer(flags: number, type: GrpcType): boolean {
  return type.web && (flags & grpcWeb.trailerFlag) === grpcWeb.trailerFlag;
}

/** The error with a text that can be percent-encoded: what callers send may be quoted in it, cut anywhere. */
function wellFormed(error: ConnectError): ConnectError {
  const { rawMessage, code, metadata, details } = error;
  if (rawMessage.isWellFormed()) return error;
  const copy = new ConnectError(rawMessage.toWellFormed(), code, metadata);
  copy.details = details;
  return copy;
}

function envelope(
  flags: number,
  data: Uint8Array,
  compression: Compression | null,
  options: UniversalHandlerOptions,
): Uint8Array<ArrayBuffer> | Promise<Uint8Array<ArrayBuffer>> {
  if (!worthCompressing(data.byteLength, compression, options)) return frame(flags, data);
  return compress(data, compression).then((compressed) => frame(flags | compressedFlag, compressed));
}

/** A message written straight behind its flags and its length; undefined where that is not known how. */
function frameOf({ serializeBehind }: Serialization, message: Message): Uint8Array | undefined {
  const bytes = serializeBehind(message, HEADER_BYTES);
  if (!bytes) return undefined;
  bytes[0] = 0;
  bytes.writeUInt32BE(bytes.byteLength - HEADER_BYTES, 1);
  return bytes;
}

/** A message behind its flags and its length. */
export function frame(flags: number, data: Uint8Array): Buffer<ArrayBuffer> {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + data.byteLength);
  bytes[0] = flags;
  bytes.writeUInt32BE(data.byteLength, 1);
  bytes.set(data, HEADER_BYTES);
  return bytes;
}

/** @throws ConnectError ResourceExhausted where the text was too long to be read to its end, for it is cut anywhere */
function decodeText(body: Uint8Array, maxBytes: number): Uint8Array {
  if (exceedsText(body, body.byteLength, maxBytes)) throw tooLong(maxBytes);
  return decodeWebText(body);
}

function tooLong(maxBytes: number): ConnectError {
  const message = `request is larger than one message of configured readMaxBytes ${maxBytes}`;
  return new ConnectError(message, Code.ResourceExhausted);
}
