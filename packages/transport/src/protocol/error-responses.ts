import type { ConnectError } from "@connectrpc/connect";
import {
  codeToHttpStatus,
  contentTypeUnaryJson,
  endStreamFlag,
  endStreamToJson,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import type { HttpResponse } from "../http-types.ts";
import { envelopeOf, errorOnly } from "./grpc.ts";
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
  status = codeToHttpStatus(error.code),
): HttpResponse {
  if (format.protocol !== "connect") return errorOnly(format, error);
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
