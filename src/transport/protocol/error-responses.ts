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
import { frame } from "./envelopes.ts";
import { grpcContentType, grpcTrailer, webTrailer } from "./grpc.ts";

/**
 * An error in the protocol of the request that it answers, made from the header alone.
 *
 * @param status the HTTP status, where the protocol leaves it to us; default: that of the error's code
 */
export function errorResponse(format: CallFormat, error: ConnectError, status = httpStatusOf(error)): HttpResponse {
  if (format.protocol !== "connect") return grpcError(format, error);
  return format.isStream ? connectStreamError(format, error) : connectError(error, status);
}

/** As gRPC has it: its status in the only header there is; gRPC-Web's is in the body. */
function grpcError(format: CallFormat, error: ConnectError): HttpResponse {
  const headers: HeaderRecord = { "content-type": grpcContentType(format) };
  if (format.protocol === "grpc-web") {
    const body = webTrailer(format, error);
    headers["content-length"] = String(body.byteLength);
    return { status: 200, headers, body };
  }
  return { status: 200, headers: Object.assign(headers, grpcTrailer(error)), body: new Uint8Array(0) };
}

/** As a unary call of Connect has it. */
export function connectError(error: ConnectError, status = httpStatusOf(error)): HttpResponse {
  const body = errorToJsonBytes(error, undefined);
  const headers: HeaderRecord = { "content-type": contentTypeUnaryJson, "content-length": String(body.byteLength) };
  error.metadata.forEach((value, name) => {
    headers[name] = value;
  });
  return { status, headers, body };
}

/** As a stream of Connect has it: its first message is its last. */
function connectStreamError({ isBinary }: CallFormat, error: ConnectError): HttpResponse {
  const end = Buffer.from(JSON.stringify(endStreamToJson(error.metadata, error, undefined)));
  const headers: HeaderRecord = { "content-type": isBinary ? contentTypeStreamProto : contentTypeStreamJson };
  error.metadata.forEach((value, name) => {
    headers[name] = value;
  });
  return { status: 200, headers, body: frame(endStreamFlag, end) };
}

function httpStatusOf({ code }: ConnectError): number {
  return code === Code.Canceled ? 499 : codeToHttpStatus(code);
}
