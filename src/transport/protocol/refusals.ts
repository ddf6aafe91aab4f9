import { Code, type ConnectError } from "@connectrpc/connect";
import {
  codeToHttpStatus,
  contentTypeStreamJson,
  contentTypeStreamProto,
  contentTypeUnaryJson,
  endStreamFlag,
  endStreamToJson,
  errorToJsonBytes,
  parseContentType as parseConnectType,
} from "@connectrpc/connect/protocol-connect";
import { parseContentType as parseGrpcType } from "@connectrpc/connect/protocol-grpc";
import { parseContentType as parseGrpcWebType } from "@connectrpc/connect/protocol-grpc-web";
import type { Route, WireResponse } from "../wire.ts";
import { frame, type GrpcType, grpcContentType, grpcTrailer, webTrailer } from "./grpc.ts";
import type { HeaderRecord } from "./record-headers.ts";

/** A protocol of RPCs, as metrics and interceptors name it. */
export type RpcProtocol = "grpc" | "grpc-web" | "connect";

/** The protocol that a request says it is of; whatever names no other is Connect's. */
export function protocolOf(headers: HeaderRecord): RpcProtocol {
  const contentType = String(headers["content-type"] ?? "").toLowerCase();
  if (contentType.startsWith("application/grpc-web")) return "grpc-web";
  return contentType.startsWith("application/grpc") ? "grpc" : "connect";
}

/** A route that answers without the body. */
export function answerNow(response: WireResponse): Route {
  return { serve: async () => response };
}

/**
 * An error in the protocol of the request that it refuses, made from the header alone.
 *
 * @param status the HTTP status, where the protocol leaves it to us; default: that of the error's code
 */
export function refusalOf(headers: HeaderRecord, error: ConnectError, status = httpStatusOf(error)): WireResponse {
  const protocol = protocolOf(headers);
  const contentType = String(headers["content-type"] ?? "");
  if (protocol === "connect") {
    return parseConnectType(contentType)?.stream
      ? refuseConnectStream(contentType, error)
      : refuseConnect(error, status);
  }
  const web = protocol === "grpc-web";
  const known = web ? parseGrpcWebType(contentType) : parseGrpcType(contentType);
  const text = web && contentType.toLowerCase().startsWith("application/grpc-web-text");
  return refuseGrpc({ web, text, binary: known?.binary ?? true }, error);
}

/** As gRPC has it: its status in the only header there is; gRPC-Web's is in the body. */
export function refuseGrpc(type: GrpcType, error: ConnectError): WireResponse {
  const headers: HeaderRecord = { "content-type": grpcContentType(type) };
  if (type.web) {
    const body = webTrailer(type, error);
    headers["content-length"] = String(body.byteLength);
    return { status: 200, headers, body };
  }
  return { status: 200, headers: Object.assign(headers, grpcTrailer(error)), body: new Uint8Array(0) };
}

/** As a unary call of Connect has it. */
export function refuseConnect(error: ConnectError, status = httpStatusOf(error)): WireResponse {
  const body = errorToJsonBytes(error, undefined);
  const headers: HeaderRecord = { "content-type": contentTypeUnaryJson, "content-length": String(body.byteLength) };
  error.metadata.forEach((value, name) => {
    headers[name] = value;
  });
  return { status, headers, body };
}

/** As a stream of Connect has it: its first message is its last. */
function refuseConnectStream(contentType: string, error: ConnectError): WireResponse {
  const end = Buffer.from(JSON.stringify(endStreamToJson(error.metadata, error, undefined)));
  const binary = parseConnectType(contentType)?.binary;
  const headers: HeaderRecord = { "content-type": binary ? contentTypeStreamProto : contentTypeStreamJson };
  error.metadata.forEach((value, name) => {
    headers[name] = value;
  });
  return { status: 200, headers, body: frame(endStreamFlag, end) };
}

function httpStatusOf({ code }: ConnectError): number {
  return code === Code.Canceled ? 499 : codeToHttpStatus(code);
}
