import { Code, type ConnectError } from "@connectrpc/connect";
import {
  codeToHttpStatus,
  contentTypeUnaryJson,
  endStreamFlag,
  endStreamToJson,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import type { HttpResponse } from "../exchange.ts";
import { type CallFormat, contentTypeOf } from "./content-types.ts";
import { envelopeOf } from "./envelopes.ts";
import { grpcError } from "./grpc.ts";
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

/** The error response of a unary Connect call. */
function connectError(error: ConnectError, status: number): HttpResponse {
  const body = errorToJsonBytes(error, undefined);
  const headers = { "content-type": contentTypeUnaryJson, "content-length": String(body.byteLength) };
  return { status, headers: { ...headers, ...recordOf(error.metadata) }, body };
}

/** The error response of a Connect stream: an end-stream message alone. */
function connectStreamError(format: CallFormat, error: ConnectError): HttpResponse {
  const end = Buffer.from(JSON.stringify(endStreamToJson(new Headers(), error, undefined)));
  const headers = { "content-type": contentTypeOf(format), ...recordOf(error.metadata) };
  return { status: 200, headers, body: envelopeOf(endStreamFlag, end) };
}

/** The HTTP status of an error's code. */
export function httpStatusOf({ code }: ConnectError): number {
  return code === Code.Canceled ? 499 : codeToHttpStatus(code);
}
