import { ConnectError } from "@connectrpc/connect";
import * as grpc from "@connectrpc/connect/protocol-grpc";
import * as grpcWeb from "@connectrpc/connect/protocol-grpc-web";
import { bodyBytes, type HeaderRecord, type HttpResponse } from "../exchange.ts";
import type { CallFormat } from "./content-types.ts";
import {
  compressEnvelope,
  EnvelopeReader,
  envelopeOf,
  exceedsEnvelope,
  exceedsWebText,
  messageEnvelope,
  messageTooLong,
  onlyMessage,
} from "./envelopes.ts";
import { headersOf, RecordHeaders, recordOf } from "./record-headers.ts";
import type { UnaryProtocol, UnaryRoute } from "./unary-route.ts";
import { decodeWebText } from "./web-text.ts";

const EMPTY = new Uint8Array(0);

/**
 * Unary calls of the gRPC protocol (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) and of gRPC-Web
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md).
 */
export const grpcProtocol: UnaryProtocol = {
  parseTimeout: grpc.parseTimeout,
  timeoutHeader: "grpc-timeout",
  encodingHeader: "grpc-encoding",
  acceptHeader: "grpc-accept-encoding",
  isTooLong: (received, { format, limit }) => (format.isText ? exceedsWebText : exceedsEnvelope)(received, limit),

  begin({ format, responseCompression }) {
    const header: HeaderRecord = { "content-type": format.responseType };
    if (responseCompression) header["grpc-encoding"] = responseCompression.name;
    return [header, { "grpc-status": grpc.grpcStatusOk }];
  },

  decode({ body }, route) {
    const { format, limit, requestCompression } = route;
    const bytes = format.isText ? decodeText(body, limit) : body;
    return onlyMessage(new EnvelopeReader(bytes, limit, requestCompression), route);
  },

  encode: messageEnvelope,
  respond,

  respondError(error, route) {
    grpc.setTrailerStatus(route.call.responseTrailer, wellFormed(error));
    return respond(EMPTY, route);
  },
};

function respond(
  body: HttpResponse["body"],
  { call, format, responseCompression, method }: UnaryRoute,
): HttpResponse | Promise<HttpResponse> {
  const headers = recordOf(call.responseHeader);
  if (format.protocol === "grpc") return { status: 200, headers, body, trailers: recordOf(call.responseTrailer) };
  // gRPC-Web sends its trailers in the body.
  const trailer = grpcWeb.trailerSerialize(call.responseTrailer);
  const finish = (last: Uint8Array): HttpResponse => {
    const parts = [bodyBytes(body), last];
    // Each part is base64 of its own.
    const text = () => Buffer.from(parts.map((part) => Buffer.from(part).toString("base64")).join(""));
    return { status: 200, headers, body: format.isText ? text() : Buffer.concat(parts) };
  };
  const last = compressEnvelope(grpcWeb.trailerFlag, trailer, responseCompression, method.options);
  return last instanceof Promise ? last.then(finish) : finish(last);
}

/** The trailers of an error. */
export function errorTrailers(error: ConnectError): HeaderRecord {
  return recordOf(grpc.setTrailerStatus(new RecordHeaders({}, true), wellFormed(error)));
}

/** The response for an error alone. gRPC sends its trailers as headers; gRPC-Web puts them in the body. */
export function trailersOnly(format: CallFormat, trailers: HeaderRecord): HttpResponse {
  const headers: HeaderRecord = { "content-type": format.responseType };
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
