import type { ContextValues } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";

/** Headers by lower-case name, as node:http and node:http2 represent them. */
export type HeaderRecord = { [name: string]: string | string[] | number | undefined };

/** A request before its body is read. */
export interface RequestHead {
  readonly httpMethod: string;
  /** Path and query, as in the request line or `:path`. */
  readonly target: string;
  readonly headers: HeaderRecord;
  /** When the request arrived, in milliseconds of Unix time. Its deadline counts from this time. */
  readonly arrived: number;
  /** Whether the client has disconnected. */
  readonly isDisconnected: boolean;
  /** The number of bytes of the body that have arrived before it is read. */
  readonly unreadBytes: number;
  /** The IP address of the peer; empty if it is not known. */
  peerAddress(): string;
  /** The absolute URL. */
  url(): string;
  /** Creates a signal that aborts when the client disconnects. */
  requestSignal(): AbortSignal;
  /**
   * Stops reading the HTTP/2 connection of the request because a caller has many waiting calls. Returns one function
   * for each stopped connection. The function resumes reading of the connection. It does not stop HTTP/1.1, which
   * serves one request at a time.
   *
   * @param isFirst whether no connection is stopped for the caller yet. If so, this also stops all connections that
   * were stopped for the caller before. The same turn of the event loop then does not read them
   */
  pauseConnections(caller: string, isFirst: boolean): (() => void)[];
}

/** A request whose body has been read. */
export interface HttpRequest extends RequestHead {
  /** Empty until the body has been read. Endpoints receive a decompressed body. */
  body: Buffer;
}

/** A response to be written. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: HeaderRecord;
  /** A string is sent as UTF-8. */
  readonly body: Uint8Array | string;
  /** HTTP trailers; undefined if the protocol has none. */
  readonly trailers?: HeaderRecord;
}

/** Serves a request. Call its methods on the object. */
export interface Route {
  /**
   * The maximum number of body bytes to read. Undefined if the route needs no body. The route is then served at once.
   */
  readonly maxBytes?: number | undefined;
  /** Whether unauthenticated clients may send this request. Its body then has less time to arrive. */
  readonly isOpen?: boolean;
  serve(request: HttpRequest): Promise<HttpResponse>;
  /** The call of the request. Call `leave` when the request is answered or abandoned. */
  readonly call?: { leave(): void } | undefined;
}

/** Serves a streaming call by Connect's own handler. */
export interface StreamRoute {
  readonly handler: UniversalHandler;
  readonly contextValues: ContextValues;
}

/** The route of a request; a promise only if authorization is asynchronous. */
export type Found = Route | StreamRoute | Promise<Route | StreamRoute>;

/** Finds the route of a request. */
export type Find = (request: RequestHead) => Found;

/** Passes a value, or the value of a promise, to a function. */
export function whenKnown<T, U>(value: T | Promise<T>, next: (value: T) => U): U | Promise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** The bytes of a body. Copies only a string. */
export function bodyBytes(body: HttpResponse["body"]): Buffer {
  return typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

/** A route that sends one response without reading the body. */
export function respondWith(response: HttpResponse): Route {
  return { serve: async () => response };
}
