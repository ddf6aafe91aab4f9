import { parseContentType as parseConnectType } from "@connectrpc/connect/protocol-connect";
import { parseContentType as parseGrpcType } from "@connectrpc/connect/protocol-grpc";
import { parseContentType as parseGrpcWebType } from "@connectrpc/connect/protocol-grpc-web";
import type { HeaderRecord } from "../http-types.ts";

/** Appending an empty value leaves spaces at the ends. HTTP/2 drops headers with such a value. */
const SPACE_AT_ENDS = /^[\t ]+|[\t ]+$/g;
const PLAIN_NAME = /^[a-z0-9-]+$/;
const PLAIN_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/**
 * The fetch API's `Headers` on top of a plain record. The common operations (get, set and append of plain headers) work
 * on the record. Any other operation first copies the record to real `Headers`, which are used from then on.
 *
 * It behaves as https://fetch.spec.whatwg.org/#headers-class says.
 */
export class RecordHeaders implements Headers {
  /** The record, until it has been copied. */
  plain: HeaderRecord | undefined;
  private readonly writable: boolean;
  private real: Headers | undefined = undefined;

  /**
   * @param record headers by lower-case name; HTTP/2 pseudo-headers are ignored
   * @param writable whether the record may be modified; otherwise it stays unchanged
   */
  constructor(record: HeaderRecord, writable = false) {
    this.plain = record;
    this.writable = writable;
  }

  get(name: string): string | null {
    const { plain } = this;
    if (plain && PLAIN_NAME.test(name)) {
      const value = Object.hasOwn(plain, name) ? plain[name] : undefined;
      if (value === undefined) return null;
      if (typeof value === "string" && PLAIN_VALUE.test(value)) return value;
    }
    return this.headers().get(name);
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  set(name: string, value: string): void {
    const isPlain = PLAIN_NAME.test(name) && name !== "set-cookie" && PLAIN_VALUE.test(value);
    if (isPlain && this.plain && this.writable) this.plain[name] = value;
    else this.headers().set(name, value);
  }

  append(name: string, value: string): void {
    const isNew = this.plain && PLAIN_NAME.test(name) && !Object.hasOwn(this.plain, name);
    if (isNew) this.set(name, value);
    else this.headers().append(name, value);
  }

  delete(name: string): void {
    this.headers().delete(name);
  }

  forEach(callback: (value: string, key: string, parent: Headers) => void, thisArg?: unknown): void {
    this.headers().forEach((value, key) => {
      callback.call(thisArg, value, key, this);
    });
  }

  getSetCookie(): string[] {
    return this.headers().getSetCookie();
  }

  entries() {
    return this.headers().entries();
  }

  keys() {
    return this.headers().keys();
  }

  values() {
    return this.headers().values();
  }

  [Symbol.iterator]() {
    return this.headers()[Symbol.iterator]();
  }

  private headers(): Headers {
    this.real ??= headersOf(this.plain ?? {});
    this.plain = undefined;
    return this.real;
  }
}

/** The value of a header, with repeated values joined; null when it is absent. */
export function headerValue(headers: HeaderRecord, name: string): string | null {
  const value = headers[name];
  if (value === undefined) return null;
  return Array.isArray(value) ? value.join(", ") : String(value);
}

/** Converts a record to `Headers`, without HTTP/2 pseudo-headers. */
export function headersOf(record: HeaderRecord): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(record)) {
    if (value === undefined || name.startsWith(":")) continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) headers.append(name, one);
  }
  return headers;
}

/** Converts `Headers` to a record, for node:http and node:http2; `set-cookie` values become an array. */
export function recordOf(headers: Headers): HeaderRecord {
  if (headers instanceof RecordHeaders && headers.plain) return headers.plain;
  const record: HeaderRecord = Object.create(null);
  headers.forEach((value, name) => {
    const known = record[name];
    const field = value.replace(SPACE_AT_ENDS, "");
    record[name] = known === undefined ? field : [known as string, field].flat();
  });
  return record;
}

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
