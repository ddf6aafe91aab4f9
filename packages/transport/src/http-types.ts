import type { ContextValues } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";

/** Headers by lower-case name, as node:http and node:http2 represent them. */
export type HeaderRecord = { [name: string]: string | string[] | number | undefined };

/** The part of a request that is known before its body is read. */
export interface RequestHead {
  readonly httpMethod: string;
  /** The path and the query, as in the request line or `:path`. */
  readonly target: string;
  readonly headers: HeaderRecord;
  /** The arrival time of the request, in milliseconds of Unix time. The deadline of a call counts from this time. */
  readonly arrived: number;
  readonly isDisconnected: boolean;
  /** The number of body bytes that have arrived but are not read yet. */
  readonly unreadBytes: number;
  /** Returns the IP address of the peer; empty if the address is unknown. */
  peerAddress(): string;
  url(): string;
  /** Creates a signal that aborts when the client disconnects. */
  requestSignal(): AbortSignal;
  /**
   * Stops reading the HTTP/2 connection of this request. Call this method if the caller has many waiting calls. Returns
   * the stopped connections. Does nothing over HTTP/1.1, because an HTTP/1.1 connection serves one request at a time.
   *
   * @param isFirst whether the queue now begins to stop connections of the caller. If true, the method also stops the
   * connections that it stopped for this caller earlier and that were resumed since then. Otherwise, the server could
   * read more calls of the caller from these connections in the same turn of the event loop
   */
  pauseConnections(caller: string, isFirst: boolean): PausedConnection[];
}

/** A connection that the server does not read, because its caller has many waiting calls. */
export interface PausedConnection {
  readonly isClosed: boolean;
  resume(): void;
}

export interface HttpRequest extends RequestHead {
  /** The body; empty until the body has been read. Endpoints receive the decompressed body. */
  body: Buffer;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: HeaderRecord;
  /** A string is sent as UTF-8. */
  readonly body: Uint8Array | string;
  /** The HTTP trailers. Omit the trailers if the protocol has no HTTP trailers. */
  readonly trailers?: HeaderRecord;
}

/** Serves one request. Its methods use `this`, so call them on the object. */
export interface Route {
  /**
   * The maximum number of body bytes to read. If undefined, the transport does not read the body, and calls `serve` as
   * soon as the headers have arrived.
   */
  readonly maxBytes?: number | undefined;
  serve(request: HttpRequest): Promise<HttpResponse>;
  /**
   * The call of the request. If the call is undefined, or if its method is open, unauthenticated clients may send the
   * request. The body of such a request must arrive within `openArrivalTimeoutMs`. The server calls `leave` after
   * `serve`.
   */
  readonly call?: { readonly isOpen: boolean; leave(): void } | undefined;
}

/** The route of a streaming call. Connect's handler serves the call. */
export interface StreamRoute {
  readonly handler: UniversalHandler;
  readonly contextValues: ContextValues;
}

/** The route of a request; a promise if the call waits in the queue, or if its authorization is asynchronous. */
export type Found = Route | StreamRoute | Promise<Route | StreamRoute>;

export type Find = (request: RequestHead) => Found;

export function whenKnown<T, U>(value: T | Promise<T>, next: (value: T) => U): U | Promise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** Returns the bytes of a body. Copies the body only if it is a string. */
export function bodyBytes(body: HttpResponse["body"]): Buffer {
  return typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

/** Creates a route that sends a response without reading the body. */
export function respondWith(response: HttpResponse): Route {
  return { serve: async () => response };
}
