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

/**
 * Creates the error response in the protocol of the request.
 *
 * @param status the HTTP status of the response to a unary Connect call. Default: the status of the error code
 */
export function errorResponse(
  format: CallFormat,
  error: ConnectError,
  status = codeToHttpStatus(error.code),
): HttpResponse {
  if (format.protocol !== "connect") return errorOnly(format, error);
  const metadata = recordOf(error.metadata);
  if (format.isStream) {
    const end = Buffer.from(JSON.stringify(endStreamToJson(new Headers(), error, undefined)));
    const headers = { "content-type": format.responseType, ...metadata };
    return { status: 200, headers, body: envelopeOf(endStreamFlag, end) };
  }
  const body = errorToJsonBytes(error, undefined);
  const headers = { "content-type": contentTypeUnaryJson, "content-length": String(body.byteLength), ...metadata };
  return { status, headers, body };
}
