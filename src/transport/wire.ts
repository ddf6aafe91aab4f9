import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues } from "@connectrpc/connect";
import type { Compression, UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import { type CallInit, UnaryCall } from "./call.ts";
import { type HeaderRecord, LeanHeaders } from "./lean-headers.ts";
import type { UnaryMethod } from "./methods.ts";

/** A request whose body has been read. */
export interface WireRequest {
  /** The HTTP method. */
  readonly httpMethod: string;
  /** Path and query, as the request line or `:path` has it. */
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly body: Uint8Array;
  /** When its header arrived, in milliseconds of Unix time. Default: when it is served. */
  readonly arrived?: number | undefined;
  /** The absolute URL. */
  readonly url: () => string;
  /** Aborts when the caller is gone. */
  readonly requestSignal: () => AbortSignal;
}

/** An answer to be written. */
export interface WireResponse {
  readonly status: number;
  readonly headers: HeaderRecord;
  readonly body: Uint8Array;
  /** HTTP trailers; undefined where the protocol has none. */
  readonly trailers?: HeaderRecord;
}

/** Whether the body that was read so far, of `total` bytes, is too long to succeed, so that the rest need not be read. */
export type IsTooLong = (head: Uint8Array, total: number) => boolean;

/** What serves a request once its body is read. */
export interface Route {
  readonly isTooLong: IsTooLong;
  readonly serve: (request: WireRequest) => Promise<WireResponse>;
}

/** A request that failed before it became a call. */
export interface RefusedRequest {
  readonly method: UnaryMethod["desc"];
  readonly protocolName: string;
  readonly requestHeader: Headers;
  readonly contextValues: ContextValues | undefined;
}

/** Replaces the error of a request that could not be decoded, before it is sent. */
export type OnRefused = (error: ConnectError, request: RefusedRequest) => ConnectError;

/** What the transport is told to do around a call. */
export interface Hooks {
  readonly contextValues?: ((request: { readonly headers: HeaderRecord }) => ContextValues) | undefined;
  readonly onRefused?: OnRefused | undefined;
}

/** What a protocol makes of a request before the call: what to call with, or what is wrong. */
export interface Decoded {
  readonly timeoutMs: number | undefined;
  readonly responseHeader: HeaderRecord;
  readonly responseTrailer: HeaderRecord;
  /** The request's message; throws or rejects with what is wrong with it. */
  readonly message: () => Message | Promise<Message>;
}

/** Runs the call that a request decodes to. What goes wrong comes back as the call's error, and as it was thrown. */
export async function run(
  method: UnaryMethod,
  protocolName: string,
  request: WireRequest,
  decoded: Decoded,
  hooks: Hooks,
): Promise<
  | { readonly call: UnaryCall; readonly body: Message; readonly error?: undefined }
  | { readonly call: UnaryCall; readonly error: ConnectError; readonly reason: unknown }
> {
  const requestHeader = new LeanHeaders(request.headers);
  const contextValues = hooks.contextValues?.(request);
  const init: CallInit = {
    method,
    protocolName,
    requestMethod: request.httpMethod,
    requestHeader,
    contextValues,
    url: request.url,
    requestSignal: request.requestSignal,
    timeoutMs: decoded.timeoutMs,
    arrived: request.arrived,
    responseHeader: decoded.responseHeader,
    responseTrailer: decoded.responseTrailer,
  };
  const call = new UnaryCall(init);
  let input: Message;
  try {
    const message = decoded.message();
    input = message instanceof Promise ? await message : message;
  } catch (reason) {
    const error = asConnectError(reason);
    return {
      call,
      error: hooks.onRefused?.(error, { method: method.desc, protocolName, requestHeader, contextValues }) ?? error,
      reason,
    };
  }
  try {
    return { call, body: await call.invoke(input, method.options.interceptors) };
  } catch (reason) {
    return { call, error: asConnectError(reason), reason };
  }
}

/** What a caller is told of anything thrown: Connect tells of its own errors alone. */
export function asConnectError(reason: unknown): ConnectError {
  if (reason instanceof ConnectError) return reason;
  return new ConnectError("internal error", Code.Internal, undefined, undefined, reason);
}

/** The value of a field that is there once; null when it is not there. */
export function field(headers: HeaderRecord, name: string): string | null {
  const value = headers[name];
  if (value === undefined) return null;
  return Array.isArray(value) ? value.join(", ") : String(value);
}

/** The path of a request target, without its query. */
export function pathOf(target: string): string {
  const question = target.indexOf("?");
  return question < 0 ? target : target.slice(0, question);
}

/** Compresses an answer that is worth it. */
export function compress(body: Uint8Array, compression: Compression): Promise<Uint8Array> {
  return compression.compress(body as Uint8Array<ArrayBuffer>);
}

/** Whether an answer is large enough to be compressed. */
export function worthCompressing(
  body: Uint8Array,
  compression: Compression | null,
  options: UniversalHandlerOptions,
): compression is Compression {
  return compression !== null && body.byteLength >= options.compressMinBytes;
}
