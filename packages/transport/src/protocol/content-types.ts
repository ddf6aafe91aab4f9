import * as connect from "@connectrpc/connect/protocol-connect";
import * as grpc from "@connectrpc/connect/protocol-grpc";
import * as grpcWeb from "@connectrpc/connect/protocol-grpc-web";
import type { HeaderRecord } from "../exchange.ts";

/** An RPC protocol, as metrics and interceptors name it. */
export type RpcProtocol = "grpc" | "grpc-web" | "connect";

/** The format of a request's messages, by its content type. */
export interface CallFormat {
  /** Types that name no other protocol count as Connect. */
  readonly protocol: RpcProtocol;
  /** Whether the protocol defines the type. It does not define `application/grpc+thrift`, for example. */
  readonly isKnown: boolean;
  /** Whether messages are binary; JSON otherwise. */
  readonly isBinary: boolean;
  /** Whether the body is base64 (gRPC-Web text). */
  readonly isText: boolean;
  /** Whether it is Connect's format for streams. The other protocols have one format for all calls. */
  readonly isStream: boolean;
}

/** The maximum size of the cache below. Clients use few content types, but can invent many. */
const MAX_KNOWN_TYPES = 256;

const known = new Map<string, CallFormat>();

/** The format of a content type. */
export function formatOf(contentType: HeaderRecord[string]): CallFormat {
  const type = String(contentType ?? "");
  const format = known.get(type);
  if (format) return format;
  const parsed = parse(type);
  // Only types that a protocol defines are cached, so that clients cannot fill the cache with invented ones.
  if (parsed.isKnown && known.size < MAX_KNOWN_TYPES) known.set(type, parsed);
  return parsed;
}

/** Whether the content type is used by RPCs only. */
export function isRpcOnly({ protocol, isStream }: CallFormat): boolean {
  return protocol !== "connect" || isStream;
}

/** The content type of a response. */
export function contentTypeOf({ protocol, isBinary, isText, isStream }: CallFormat): string {
  switch (protocol) {
    case "grpc":
      return isBinary ? grpc.contentTypeProto : grpc.contentTypeJson;
    case "grpc-web":
      // Connect does not support gRPC-Web text.
      if (isText) return `application/grpc-web-text+${isBinary ? "proto" : "json"}`;
      return isBinary ? grpcWeb.contentTypeProto : grpcWeb.contentTypeJson;
    case "connect":
      if (isStream) return isBinary ? connect.contentTypeStreamProto : connect.contentTypeStreamJson;
      return isBinary ? connect.contentTypeUnaryProto : connect.contentTypeUnaryJson;
  }
}

function parse(contentType: string): CallFormat {
  const lower = contentType.toLowerCase();
  const others = { isText: false, isStream: false };
  if (lower.startsWith("application/grpc-web")) {
    const type = grpcWeb.parseContentType(contentType);
    const isText = lower.startsWith("application/grpc-web-text");
    return { ...others, protocol: "grpc-web", isKnown: type !== undefined, isBinary: type?.binary ?? true, isText };
  }
  if (lower.startsWith("application/grpc")) {
    const type = grpc.parseContentType(contentType);
    return { ...others, protocol: "grpc", isKnown: type !== undefined, isBinary: type?.binary ?? true };
  }
  const type = connect.parseContentType(contentType);
  return {
    ...others,
    protocol: "connect",
    isKnown: type !== undefined,
    isBinary: type?.binary ?? false,
    isStream: type?.stream ?? false,
  };
}
