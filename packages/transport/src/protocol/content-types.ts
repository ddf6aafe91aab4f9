import { parseContentType as parseConnectType } from "@connectrpc/connect/protocol-connect";
import { parseContentType as parseGrpcType } from "@connectrpc/connect/protocol-grpc";
import { parseContentType as parseGrpcWebType } from "@connectrpc/connect/protocol-grpc-web";
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
  /** The content type of responses. */
  readonly responseType: string;
}

/** The maximum size of the cache below. Clients use few content types, but can invent many. */
const MAX_KNOWN_TYPES = 256;

const PARSERS = {
  grpc: parseGrpcType,
  "grpc-web": parseGrpcWebType,
  connect: parseConnectType,
} as const;

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

function parse(contentType: string): CallFormat {
  const [, grpcType, web, text] = /^application\/(grpc)(-web)?(-text)?/i.exec(contentType) ?? [];
  const protocol = !grpcType ? "connect" : web ? "grpc-web" : "grpc";
  const type: { readonly binary: boolean; readonly stream?: boolean } | undefined = PARSERS[protocol](contentType);
  const isBinary = type?.binary ?? protocol !== "connect";
  const isText = protocol === "grpc-web" && text !== undefined;
  const isStream = type?.stream ?? false;
  const name = protocol !== "connect" ? `${protocol}${isText ? "-text" : ""}+` : isStream ? "connect+" : "";
  const responseType = `application/${name}${isBinary ? "proto" : "json"}`;
  return { protocol, isKnown: type !== undefined, isBinary, isText, isStream, responseType };
}
