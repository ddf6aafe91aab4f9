import { parseContentType as parseConnectType } from "@connectrpc/connect/protocol-connect";
import { parseContentType as parseGrpcType } from "@connectrpc/connect/protocol-grpc";
import { parseContentType as parseGrpcWebType } from "@connectrpc/connect/protocol-grpc-web";
import type { HeaderRecord } from "../exchange.ts";

/** A protocol of RPCs, as metrics and interceptors name it. */
export type RpcProtocol = "grpc" | "grpc-web" | "connect";

/** How the messages of a request are written, by its content type. */
export interface CallFormat {
  /** Whatever names no other protocol is Connect's. */
  readonly protocol: RpcProtocol;
  /** Whether the type is one that the protocol has; `application/grpc+thrift` is not. */
  readonly isKnown: boolean;
  /** Binary messages, else JSON. */
  readonly isBinary: boolean;
  /** gRPC-Web text: the body is base64. */
  readonly isText: boolean;
  /** Connect's form for streams; the other protocols have one form for all. */
  readonly isStream: boolean;
}

/** Content types are few, but callers choose them, so the table of known ones stays this small. */
const MAX_KNOWN_TYPES = 256;

const known = new Map<string, CallFormat>();

/** The format that a content type stands for. */
export function formatOf(contentType: HeaderRecord[string]): CallFormat {
  const type = String(contentType ?? "");
  const format = known.get(type);
  if (format) return format;
  const parsed = parse(type);
  // Strangers must not fill the table with types that are none.
  if (parsed.isKnown && known.size < MAX_KNOWN_TYPES) known.set(type, parsed);
  return parsed;
}

/** Whether a request is of a protocol of RPCs by its content type alone, and can be nothing else. */
export function isRpcOnly({ protocol, isStream }: CallFormat): boolean {
  return protocol !== "connect" || isStream;
}

function parse(contentType: string): CallFormat {
  const lower = contentType.toLowerCase();
  const others = { isText: false, isStream: false };
  if (lower.startsWith("application/grpc-web")) {
    const type = parseGrpcWebType(contentType);
    const isText = lower.startsWith("application/grpc-web-text");
    return { ...others, protocol: "grpc-web", isKnown: type !== undefined, isBinary: type?.binary ?? true, isText };
  }
  if (lower.startsWith("application/grpc")) {
    const type = parseGrpcType(contentType);
    return { ...others, protocol: "grpc", isKnown: type !== undefined, isBinary: type?.binary ?? true };
  }
  const type = parseConnectType(contentType);
  return {
    ...others,
    protocol: "connect",
    isKnown: type !== undefined,
    isBinary: type?.binary ?? false,
    isStream: type?.stream ?? false,
  };
}
