import { Code, type ConnectError } from "@connectrpc/connect";
import {
  codeToHttpStatus,
  contentTypeUnaryJson,
  endStreamFlag,
  endStreamToJson,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import type { HeaderRecord, HttpResponse } from "../http-types.ts";
import { envelopeOf, errorTrailers, trailersOnly } from "./grpc.ts";
import { type CallFormat, headersOf, recordOf } from "./headers.ts";
import type { Refused } from "./refusals.ts";

/**
 * Creates the error response in the protocol of the request. A shared error is encoded once for each protocol.
 *
 * @param status the HTTP status of Connect's unary calls; default: the status of the error code
 */
export function errorResponse(
  format: CallFormat,
  { error, shared, headers }: Omit<Refused, "status">,
  status = httpStatusOf(error),
): HttpResponse {
  if (format.protocol !== "connect") {
    const trailers = shared?.grpc ?? errorTrailers(error);
    if (shared) shared.grpc = trailers;
    return trailersOnly(format, { ...trailers, ...headers });
  }
  if (format.isStream) return connectStreamError(format, error, headers);
  const response = shared?.connect ?? connectError(error, status);
  if (shared) shared.connect = response;
  return withHeaders(response, headers);
}

/** Adds headers to a copy of a response. */
export function withHeaders(response: HttpResponse, headers: HeaderRecord | undefined): HttpResponse {
  return headers ? { ...response, headers: { ...response.headers, ...headers } } : response;
}

/** The error response of a unary Connect call. */
function connectError(error: ConnectError, status: number): HttpResponse {
  const body = errorToJsonBytes(error, undefined);
  const headers = { "content-type": contentTypeUnaryJson, "content-length": String(body.byteLength) };
  return { status, headers: { ...headers, ...recordOf(error.metadata) }, body };
}

/** The error response of a Connect stream: one end-stream message. */
function connectStreamError(format: CallFormat, error: ConnectError, added: HeaderRecord = {}): HttpResponse {
  const end = Buffer.from(JSON.stringify(endStreamToJson(headersOf(added), error, undefined)));
  const headers = { "content-type": format.responseType, ...recordOf(error.metadata), ...added };
  return { status: 200, headers, body: envelopeOf(endStreamFlag, end) };
}

/** The HTTP status of an error's code. */
export function httpStatusOf({ code }: ConnectError): number {
  return code === Code.Canceled ? 499 : codeToHttpStatus(code);
}
