import { Code, type ConnectError } from "@connectrpc/connect";
import {
  codeToHttpStatus,
  contentTypeStreamJson,
  contentTypeStreamProto,
  contentTypeUnaryJson,
  endStreamFlag,
  endStreamToJson,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import type { HeaderRecord, HttpResponse } from "../exchange.ts";
import type { CallFormat } from "./content-types.ts";
import { envelopeOf } from "./envelopes.ts";
import { grpcContentType, grpcTrailer, webTrailer } from "./grpc.ts";
import { recordOf } from "./record-headers.ts";

/**
 * Makes the error response in the protocol of the request.
 *
 * @param status the HTTP status, for protocols that leave the choice to the server; default: the status of the error's
 *   code
 */
export function errorResponse(format: CallFormat, error: ConnectError, status = httpStatusOf(error)): HttpResponse {
  if (format.protocol !== "connect") return grpcError(format, error);
  return format.isStream ? connectStreamError(format, error) : connectError(error, status);
}

/** gRPC sends a trailers-only response; gRPC-Web puts the trailers in the body. */
function grpcError(format: CallFormat, error: ConnectError): HttpResponse {
  const headers: HeaderRecord = { "content-type": grpcContentType(format) };
  if (format.protocol === "grpc-web") {
    const body = webTrailer(format, error);
    headers["content-length"] = String(body.byteLength);
    return { status: 200, headers, body };
  }
  return { status: 200, headers: Object.assign(headers, grpcTrailer(error)), body: new Uint8Array(0) };
}

/** The error response of a unary Connect call. */
function connectError(error: ConnectError, status = httpStatusOf(error)): HttpResponse {
  const body = errorToJsonBytes(error, undefined);
  const headers: HeaderRecord = { "content-type": contentTypeUnaryJson, "content-length": String(body.byteLength) };
  return { status, headers: Object.assign(headers, recordOf(error.metadata)), body };
}

/** The error response of a Connect stream: an end-stream message alone. */
function connectStreamError({ isBinary }: CallFormat, error: ConnectError): HttpResponse {
  const end = Buffer.from(JSON.stringify(endStreamToJson(new Headers(), error, undefined)));
  const headers: HeaderRecord = { "content-type": isBinary ? contentTypeStreamProto : contentTypeStreamJson };
  Object.assign(headers, recordOf(error.metadata));
  return { status: 200, headers, body: envelopeOf(endStreamFlag, end) };
}

/** The HTTP status of an error's code. */
export function httpStatusOf({ code }: ConnectError): number {
  return code === Code.Canceled ? 499 : codeToHttpStatus(code);
}
