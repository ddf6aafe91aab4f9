import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues } from "@connectrpc/connect";
import type { Compression, UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import type { AdmissionHooks, Admitted } from "./protocol/admission.ts";
import { type CallInit, type CallSource, UnaryCall } from "./protocol/call.ts";
import type { UnaryMethod } from "./protocol/methods.ts";
import type { HeaderRecord } from "./protocol/record-headers.ts";

/** A request whose body has been read. */
export interface WireRequest extends CallSource {
  /** Path and query, as the request line or `:path` has it. */
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly body: Uint8Array;
}

/** An answer to be written. */
export interface WireResponse {
  readonly status: number;
  readonly headers: HeaderRecord;
  /** Texts are sent in UTF-8. */
  readonly body: Uint8Array | string;
  /** HTTP trailers; undefined where the protocol has none. */
  readonly trailers?: HeaderRecord;
}

/** Whether the body that was read so far, of `total` bytes, is too long to succeed, so that the rest need not be read. */
export type IsTooLong = (head: Uint8Array, total: number) => boolean;

/** What serves a request, found by its header. Its methods are called with it. */
export interface Route {
  /** Undefined: the body is not wanted, and the request is served at once. */
  isTooLong?(...args: Parameters<IsTooLong>): boolean;
  serve(request: WireRequest): Promise<WireResponse>;
  /** To be called when the request was answered, or given up before it was served; more than once does no harm. */
  end?(): void;
}

/** A request that failed before it became a call. */
export interface RefusedRequest {
  readonly method: UnaryMethod["desc"];
  readonly protocolName: string;
  readonly requestHeader: Headers;
  readonly contextValues: ContextValues | undefined;
  /** In milliseconds of Unix time, where it is known. */
  readonly arrived: number | undefined;
}

/** Replaces the error of a request that could not be decoded, before it is sent. */
export type OnRefused = (error: ConnectError, request: RefusedRequest) => ConnectError;

/** What the transport is told to do around a call. */
export interface Hooks extends AdmissionHooks {
  readonly onRefused?: OnRefused | undefined;
}

/** What a protocol makes of a request's header. */
export type Opening = Omit<CallInit, "source" | "requestHeader" | "contextValues">;

/** Begins the call that a request is. */
export function openCall(request: WireRequest, opening: Opening, admitted: Admitted): UnaryCall {
  return new UnaryCall({
    method: opening.method,
    protocolName: opening.protocolName,
    source: request,
    requestHeader: admitted.header,
    contextValues: admitted.contextValues,
    timeoutMs: opening.timeoutMs,
    responseHeader: opening.responseHeader,
    responseTrailer: opening.responseTrailer,
  });
}

/**
 * Makes the call that a request decodes to; rejects with what goes wrong, be it with the request or in the call.
 *
 * @param decode the request's message; throws or rejects with what is wrong with it
 */
export function makeCall(call: UnaryCall, decode: () => Message | Promise<Message>, hooks: Hooks): Promise<Message> {
  const refuse = (reason: unknown): never => {
    const error = asConnectError(reason);
    const { method, protocolName, header, contextValues, arrived } = call;
    throw hooks.onRefused?.(error, { method, protocolName, requestHeader: header, contextValues, arrived }) ?? error;
  };
  let message: Message | Promise<Message>;
  try {
    message = decode();
  } catch (reason) {
    return new Promise(() => refuse(reason));
  }
  // Most requests are decoded at once, and need no promise.
  return message instanceof Promise ? message.catch(refuse).then((input) => call.invoke(input)) : call.invoke(message);
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

/** The bytes of a body. */
export function bodyBytes(body: WireResponse["body"]): Uint8Array {
  return typeof body === "string" ? Buffer.from(body) : body;
}

/** Compresses an answer that is worth it. */
export function compress(body: Uint8Array, compression: Compression): Promise<Uint8Array> {
  return compression.compress(body as Uint8Array<ArrayBuffer>);
}

/** Whether an answer of so many bytes is large enough to be compressed. */
export function worthCompressing(
  bytes: number,
  compression: Compression | null,
  options: UniversalHandlerOptions,
): compression is Compression {
  return compression !== null && bytes >= options.compressMinBytes;
}
