import { Code, type ConnectError } from "@connectrpc/connect";
import {
  codeToHttpStatus,
  contentTypeUnaryJson,
  endStreamFlag,
  endStreamToJson,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import type { HttpResponse } from "../http-types.ts";
import { envelopeOf, errorTrailers, trailersOnly } from "./grpc.ts";
import { type CallFormat, recordOf } from "./headers.ts";
import type { Refused } from "./refusals.ts";

/**
 * Creates the error response in the protocol of the request.
 *
 * @param status the HTTP status of the response to a unary Connect call. Default: the status of the error code
 */
export function errorResponse(
  format: CallFormat,
  { error }: Pick<Refused, "error">,
  status = httpStatusOf(error),
): HttpResponse {
  if (format.protocol !== "connect") return trailersOnly(format, errorTrailers(error));
  return format.isStream ? connectStreamError(format, error) : connectError(error, status);
}

function connectError(error: ConnectError, status: number): HttpResponse {
  const body = errorToJsonBytes(error, undefined);
  const headers = { "content-type": contentTypeUnaryJson, "content-length": String(body.byteLength) };
  return { status, headers: { ...headers, ...recordOf(error.metadata) }, body };
}

function connectStreamError(format: CallFormat, error: ConnectError): HttpResponse {
  const end = Buffer.from(JSON.stringify(endStreamToJson(new Headers(), error, undefined)));
  const headers = { "content-type": format.responseType, ...recordOf(error.metadata) };
  return { status: 200, headers, body: envelopeOf(endStreamFlag, end) };
}

export function httpStatusOf({ code }: ConnectError): number {
  return code === Code.Canceled ? 499 : codeToHttpStatus(code);
}
