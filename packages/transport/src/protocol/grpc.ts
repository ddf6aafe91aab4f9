import { Code, ConnectError } from "@connectrpc/connect";
import { type Compression, compressionNegotiate, type UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import * as grpc from "@connectrpc/connect/protocol-grpc";
import * as grpcWeb from "@connectrpc/connect/protocol-grpc-web";
import { bodyBytes, type HeaderRecord, type HttpRequest, type HttpResponse, headerValue } from "../exchange.ts";
import type { AdmittedCall } from "./admission.ts";
import { UnaryCall } from "./call.ts";
import { type CallFormat, contentTypeOf } from "./content-types.ts";
import {
  compressEnvelope,
  EnvelopeReader,
  envelopeOf,
  exceedsWebText,
  messageTooLong,
  onlyMessage,
  serializeEnvelope,
} from "./envelopes.ts";
import type { UnaryMethod } from "./methods.ts";
import { headersOf, RecordHeaders, recordOf } from "./record-headers.ts";
import { asConnectError } from "./refusals.ts";
import { invokeCall, parseMessage } from "./requests.ts";
import { decodeWebText } from "./web-text.ts";

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
  admitted: AdmittedCall,
): Promise<HttpResponse> {
  const { options } = method;
  const serialization = format.isBinary ? method.binary : method.json;
  const { headers } = request;
  const timeout = grpc.parseTimeout(headerValue(headers, "grpc-timeout"), options.maxTimeoutMs);
  const compression = compressionNegotiate(
    options.acceptCompression,
    headerValue(headers, ENCODING),
    headerValue(headers, ACCEPT_ENCODING),
    ACCEPT_ENCODING,
  );
  const responseHeader: HttpResponse["headers"] = { "content-type": contentTypeOf(format) };
  if (compression.response) responseHeader[ENCODING] = compression.response.name;
  const decode = () => {
    if (compression.error) throw compression.error;
    if (timeout.error) throw timeout.error;
    const limit = options.readMaxBytes;
    const body = format.isText ? decodeText(request.body, limit) : request.body;
    const reader = new EnvelopeReader(body, limit, compression.request);
    return onlyMessage(reader, format, (bytes) => parseMessage(serialization, bytes, limit));
  };

  const call = new UnaryCall({
    method,
    request,
    head: admitted.head,
    timeoutMs: timeout.timeoutMs,
    responseHeader,
    responseTrailer: { "grpc-status": grpc.grpcStatusOk },
  });
  const finish =
    format.protocol === "grpc-web"
      ? (body: Uint8Array) => finishGrpcWeb(call, format, body, compression.response, options)
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
  return invokeCall(call, decode, admitted).then(
    (message) => {
      try {
        const framed = compression.response === null ? serializeEnvelope(serialization, message) : undefined;
        if (framed) return send(framed);
        const body = compressEnvelope(0, bodyBytes(serialization.serialize(message)), compression.response, options);
        // Most responses are not compressed, and need no promise.
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

/** gRPC-Web sends its trailers in the body. */
async function finishGrpcWeb(
  call: UnaryCall,
  format: CallFormat,
  body: Uint8Array,
  compression: Compression | null,
  options: UniversalHandlerOptions,
): Promise<HttpResponse> {
  const trailer = grpcWeb.trailerSerialize(call.responseTrailer);
  const last = await compressEnvelope(grpcWeb.trailerFlag, trailer, compression, options);
  if (!format.isText) return response(call, Buffer.concat([body, last]));
  return response(call, Buffer.from(Buffer.from(body).toString("base64") + Buffer.from(last).toString("base64")));
}

/** The trailers of an error. */
export function errorTrailers(error: ConnectError): HeaderRecord {
  return recordOf(grpc.setTrailerStatus(new RecordHeaders({}, true), wellFormed(error)));
}

/** The response for an error alone. gRPC sends its trailers as headers; gRPC-Web puts them in the body. */
export function trailersOnly(format: CallFormat, trailers: HeaderRecord): HttpResponse {
  const headers: HeaderRecord = { "content-type": contentTypeOf(format) };
  if (format.protocol === "grpc") return { status: 200, headers: { ...headers, ...trailers }, body: "" };
  const bytes = envelopeOf(grpcWeb.trailerFlag, grpcWeb.trailerSerialize(headersOf(trailers)));
  const body = format.isText ? Buffer.from(bytes.toString("base64")) : bytes;
  return { status: 200, headers: { ...headers, "content-length": String(body.byteLength) }, body };
}

/**
 * Makes the message well-formed Unicode, which percent-encoding requires. A message may quote client input that was
 * truncated inside a surrogate pair.
 */
function wellFormed(error: ConnectError): ConnectError {
  const { rawMessage, code, metadata, details } = error;
  if (rawMessage.isWellFormed()) return error;
  const copy = new ConnectError(rawMessage.toWellFormed(), code, metadata);
  copy.details = details;
  return copy;
}

/** @throws RequestRefused when the body is too long; it is then incomplete, and its base64 may be cut off anywhere */
function decodeText(body: Uint8Array, maxBytes: number): Uint8Array {
  if (exceedsWebText(body, maxBytes)) throw messageTooLong(maxBytes);
  return decodeWebText(body);
}
