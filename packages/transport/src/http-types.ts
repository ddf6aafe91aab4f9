import type { ContextValues } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";

/** Headers as node:http and node:http2 represent them, by lower-case name. */
export type HeaderRecord = { [name: string]: string | string[] | number | undefined };

/** A request before its body is read. */
export interface RequestHead {
  readonly httpMethod: string;
  /** Path and query, as in the request line or `:path`. */
  readonly target: string;
  readonly headers: HeaderRecord;
  /** When the request arrived, in milliseconds of Unix time; its deadline counts from it. */
  readonly arrived: number;
  /** The IP address that the request came from; empty when it is not known. */
  peerAddress(): string;
  /** The absolute URL. It is built on demand. */
  url(): string;
  /** A signal that aborts when the client disconnects. It is created on demand. */
  requestSignal(): AbortSignal;
}

/** A request whose body has been read. */
export interface HttpRequest extends RequestHead {
  /** Empty until it has been read. For endpoints, it is replaced by the decompressed body. */
  body: Buffer;
}

/** A response to be written. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: HeaderRecord;
  /** A string is sent as UTF-8. */
  readonly body: Uint8Array | string;
  /** HTTP trailers; undefined when the protocol has none. */
  readonly trailers?: HeaderRecord;
}

/** The route of a request, found by its headers. Call its methods on the object. */
export interface Route {
  /**
   * The most bytes of the body that are wanted; the rest of a longer one need not be read. Undefined: the route does
   * not want the body, and the request is served at once.
   */
  readonly maxBytes?: number | undefined;
  /** Whether the part of the body that was received shows that the whole will be too long. */
  isTooLong?(received: Buffer): boolean;
  /** Whether anyone may make this request. Its body has less time to arrive, and no share of the memory for bodies. */
  readonly isOpen?: boolean;
  serve(request: HttpRequest): Promise<HttpResponse>;
  /** The call that the request is. `leave` it when the request is answered or abandoned. */
  readonly call?: { leave(): void } | undefined;
}

/** The route of a streaming call: Connect's own handler. */
export interface StreamRoute {
  readonly handler: UniversalHandler;
  readonly contextValues: ContextValues;
}

/** The route of a request. It is a promise only if authorization is asynchronous. */
export type Found = Route | StreamRoute | Promise<Route | StreamRoute>;

/** Finds the route of a request. */
export type Find = (request: RequestHead) => Found;

/**
 * Passes a value to a function: at once if it is not a promise. It is not called `then`, because a module that exports
 * `then` is taken for a promise.
 */
export function whenKnown<T, U>(value: T | Promise<T>, next: (value: T) => U): U | Promise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** The body as bytes, without a copy where it has them. */
export function bodyBytes(body: HttpResponse["body"]): Buffer {
  return typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

/** A route that sends a fixed response without reading the body. */
export function respondWith(response: HttpResponse): Route {
  return { serve: async () => response };
}
