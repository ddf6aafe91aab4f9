import type { ConnectError } from "@connectrpc/connect";
import { endStreamFlag, endStreamToJson } from "@connectrpc/connect/protocol-connect";
import * as grpc from "@connectrpc/connect/protocol-grpc";
import { type HeaderRecord, LeanHeaders, recordOf } from "./lean-headers.ts";
import type { WireResponse } from "./wire.ts";

/**
 * Answers a request with an error without looking at its body, in the protocol
 * (https://connectrpc.com/docs/protocol#streaming-rpcs) that its content type names; undefined where that is none of an RPC.
 */
export function rpcRefusal(headers: HeaderRecord, error: ConnectError): WireResponse | undefined {
  const contentType = String(headers["content-type"] ?? "");
  if (contentType.startsWith("application/grpc")) {
    const fields = new LeanHeaders({ "content-type": contentType }, true);
    grpc.setTrailerStatus(fields, error);
    return { status: 200, headers: recordOf(fields), body: new Uint8Array(0) };
  }
  if (contentType.startsWith("application/connect+")) {
    const text = Buffer.from(JSON.stringify(endStreamToJson(error.metadata, error, undefined)));
    const body = Buffer.allocUnsafe(5 + text.byteLength);
    body[0] = endStreamFlag;
    body.writeUInt32BE(text.byteLength, 1);
    body.set(text, 5);
    return { status: 200, headers: { "content-type": contentType, "content-length": String(body.byteLength) }, body };
  }
  return undefined;
}
