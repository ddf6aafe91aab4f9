import { Code, ConnectError } from "@connectrpc/connect";
import { type Compression, compressionNegotiate, type UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import * as grpc from "@connectrpc/connect/protocol-grpc";
import * as grpcWeb from "@connectrpc/connect/protocol-grpc-web";
import { bodyBytes, field, type HeaderRecord, type HttpRequest, type HttpResponse } from "../exchange.ts";
import type { Admitted } from "./admission.ts";
import type { UnaryCall } from "./call.ts";
import type { CallFormat } from "./content-types.ts";
import { EnvelopeReader, envelope, exceedsText, frame, frameOf, onlyMessage, tooLong } from "./envelopes.ts";
import type { UnaryMethod } from "./methods.ts";
import { RecordHeaders, recordOf } from "./record-headers.ts";
import { asConnectError } from "./refusals.ts";
import { makeCall, openCall, parseMessage } from "./requests.ts";
import { decodeWebText, webTextType } from "./web-text.ts";

const ENCODING = "grpc-encoding";
const ACCEPT_ENCODING = "grpc-accept-encoding";
const EMPTY = new Uint8Array(0);

/**
 * Serves a unary request of the gRPC protocol
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) or of
 * gRPC-Web (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md).
 */
export function serveGrpc(
  method: UnaryMethod,
  request: HttpRequest,
  format: CallFormat,
  admitted: Admitted,
): Promise<HttpResponse> {
  const { options } = method;
  const serialization = format.isBinary ? method.binary : method.json;
  const { headers } = request;
  const timeout = grpc.parseTimeout(field(headers, "grpc-timeout"), options.maxTimeoutMs);
  const compression = compressionNegotiate(
    options.acceptCompression,
    field(headers, ENCODING),
    field(headers, ACCEPT_ENCODING),
    ACCEPT_ENCODING,
  );
  const responseHeader: HttpResponse["headers"] = { "content-type": grpcContentType(format) };
  if (compression.response) responseHeader[ENCODING] = compression.response.name;
  const opening = {
    method,
    protocolName: format.protocol,
    timeoutMs: timeout.timeoutMs,
    responseHeader,
    responseTrailer: { "grpc-status": grpc.grpcStatusOk },
  };
  const decode = () => {
    if (compression.error) throw compression.error;
    if (timeout.error) throw timeout.error;
    const limit = options.readMaxBytes;
    const body = format.isText ? decodeText(request.body, limit) : request.body;
    const reader = new EnvelopeReader(body, limit, compression.request);
    return onlyMessage(reader, format, (bytes) => parseMessage(serialization, bytes, limit));
  };

  const call = openCall(request, opening, admitted);
  const finish =
    format.protocol === "grpc-web"
      ? (body: Uint8Array) => finishWeb(call, format, body, compression.response, options)
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
  return makeCall(call, decode, admitted).then(
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

function response(call: UnaryCall, body: Uint8Array, trailers?: HeaderRecord): HttpResponse {
  return { status: 200, headers: recordOf(call.responseHeader), body, ...(trailers && { trailers }) };
}

/** gRPC-Web has its trailers in the body. */
async function finishWeb(
  call: UnaryCall,
  format: CallFormat,
  body: Uint8Array,
  compression: Compression | null,
  options: UniversalHandlerOptions,
): Promise<HttpResponse> {
  const trailer = grpcWeb.trailerSerialize(call.responseTrailer);
  const last = await envelope(grpcWeb.trailerFlag, trailer, compression, options);
  if (!format.isText) return response(call, Buffer.concat([body, last]));
  return response(call, Buffer.from(Buffer.from(body).toString("base64") + Buffer.from(last).toString("base64")));
}

/** The trailer of a call that failed, as a record. */
export function grpcTrailer(error: ConnectError): HeaderRecord {
  const trailer = new RecordHeaders({}, true);
  grpc.setTrailerStatus(trailer, wellFormed(error));
  return recordOf(trailer);
}

/** The body of an answer of gRPC-Web that is an error alone. */
export function webTrailer({ isText }: CallFormat, error: ConnectError): Uint8Array {
  const trailer = grpc.setTrailerStatus(new RecordHeaders({}, true), wellFormed(error));
  const bytes = frame(grpcWeb.trailerFlag, grpcWeb.trailerSerialize(trailer));
  return isText ? Buffer.from(bytes.toString("base64")) : bytes;
}

/** The content type of an answer. */
export function grpcContentType({ protocol, isText, isBinary }: CallFormat): string {
  if (isText) return webTextType(isBinary);
  const of = protocol === "grpc-web" ? grpcWeb : grpc;
  return isBinary ? of.contentTypeProto : of.contentTypeJson;
}

/** The error with a text that can be percent-encoded: what callers send may be quoted in it, cut anywhere. */
function wellFormed(error: ConnectError): ConnectError {
  const { rawMessage, code, metadata, details } = error;
  if (rawMessage.isWellFormed()) return error;
  const copy = new ConnectError(rawMessage.toWellFormed(), code, metadata);
  copy.details = details;
  return copy;
}

/** @throws RequestRefused where the text was too long to be read to its end, for it is cut anywhere */
function decodeText(body: Uint8Array, maxBytes: number): Uint8Array {
  if (exceedsText(body.byteLength, maxBytes)) throw tooLong(maxBytes);
  return decodeWebText(body);
}
