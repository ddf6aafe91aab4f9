import type { ContextValues } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";

/** Header fields as node:http and node:http2 give and take them, by lower-case name. */
export type HeaderRecord = { [name: string]: string | string[] | number | undefined };

/** Where a call comes from. */
export interface CallSource {
  readonly httpMethod: string;
  /** When the deadline began to run, in milliseconds of Unix time. Default: when the call is made. */
  readonly arrived?: number | undefined;
  /** The absolute URL; asked for only if somebody looks at it. */
  url(): string;
  /** Aborts when the caller is gone; asked for only if somebody listens. */
  requestSignal(): AbortSignal;
}

/** A request whose body has been read. */
export interface HttpRequest extends CallSource {
  /** Path and query, as the request line or `:path` has it. */
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly body: Uint8Array;
}

/** An answer to be written. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: HeaderRecord;
  /** Texts are sent in UTF-8. */
  readonly body: Uint8Array | string;
  /** HTTP trailers; undefined where the protocol has none. */
  readonly trailers?: HeaderRecord;
}

/** What serves a request, found by its header. Its methods are called with it. */
export interface Route {
  /**
   * Whether the body that was read so far, of `total` bytes, is too long to succeed, so that the rest need not be read.
   * Undefined: the body is not wanted, and the request is served at once.
   */
  isTooLong?(head: Uint8Array, total: number): boolean;
  serve(request: HttpRequest): Promise<HttpResponse>;
  /** To be called when the request was answered, or given up before it was served; more than once does no harm. */
  end?(): void;
}

/** One of Connect's own handlers, for a request whose body and answer are streams. */
export interface StreamRoute {
  readonly handler: UniversalHandler;
  readonly contextValues: ContextValues;
  /** Fields to add to the answer. */
  readonly responseHeaders?: HeaderRecord | undefined;
}

/** What serves a request. A promise only where it takes one to tell whether the request may come in. */
export type Found = Route | StreamRoute | Promise<Route | StreamRoute>;

/**
 * Finds what serves a request.
 *
 * @param target path and query
 */
export type Find = (httpMethod: string, target: string, headers: HeaderRecord) => Found;

/** The path of a request target, without its query. */
export function pathOf(target: string): string {
  const question = target.indexOf("?");
  return question < 0 ? target : target.slice(0, question);
}

/** The bytes of a body. */
export function bodyBytes(body: HttpResponse["body"]): Uint8Array {
  return typeof body === "string" ? Buffer.from(body) : body;
}

/** The value of a field that is there once; null when it is not there. */
export function field(headers: HeaderRecord, name: string): string | null {
  const value = headers[name];
  if (value === undefined) return null;
  return Array.isArray(value) ? value.join(", ") : String(value);
}

/** A route that answers without the body. */
export function answerNow(response: HttpResponse): Route {
  return { serve: async () => response };
}
