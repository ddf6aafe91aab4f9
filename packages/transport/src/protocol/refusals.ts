import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues, createContextKey, type StreamRequest } from "@connectrpc/connect";
import type { HeaderRecord, HttpResponse } from "../http-types.ts";
import { formatOf } from "./headers.ts";

/** The cause of an overload refusal: the queue is full, the call has waited too long, or its deadline has passed. */
export type OverloadCause = "queue-full" | "waited-too-long" | "deadline-exceeded";

/** The reason for the refusal of a request. `error` is the error that caused the refusal, if any. */
export type Refusal =
  | { readonly kind: "malformed-http" }
  /** The request has a `Transfer-Encoding` other than `chunked`. */
  | { readonly kind: "transfer-coding" }
  | { readonly kind: "request-timeout"; readonly headerMs: number; readonly requestMs: number }
  /** The request has an `Expect` header with a value other than `100-continue`. */
  | { readonly kind: "expectation-failed" }
  /** The headers are larger than `maxBytes`. */
  | { readonly kind: "header-too-large"; readonly maxBytes: number }
  | { readonly kind: "too-many-streams" }
  /** The memory budget for bodies that are still arriving is used up. */
  | { readonly kind: "too-many-bodies" }
  | {
      readonly kind: "overloaded";
      readonly cause: Exclude<OverloadCause, "deadline-exceeded">;
      readonly retryAfterSeconds: number;
    }
  /** The deadline of the call passed before the call began. */
  | { readonly kind: "deadline-exceeded" }
  | { readonly kind: "not-found" }
  | { readonly kind: "http-method"; readonly httpMethod: string; readonly allowed: readonly string[] }
  | { readonly kind: "content-type" }
  | { readonly kind: "content-encoding"; readonly accepted: readonly string[] }
  /** `authorize` threw this error. */
  | { readonly kind: "unauthorized"; readonly error: unknown }
  /** A message is longer than `maxBytes`, before or after decompression. */
  | { readonly kind: "message-too-large"; readonly maxBytes: number; readonly error: ConnectError }
  | { readonly kind: "malformed-compression"; readonly encoding: string; readonly error: ConnectError }
  | { readonly kind: "malformed-message"; readonly isBinary: boolean; readonly error: ConnectError }
  /** Another protocol error, such as an unknown encoding, a malformed deadline, or a second message. */
  | { readonly kind: "protocol"; readonly error: ConnectError }
  | { readonly kind: "unencodable"; readonly error: ConnectError }
  | { readonly kind: "endpoint"; readonly error: unknown };

export interface RefusedRequest {
  readonly method?: DescMethod | undefined;
  /** The protocol of the call, such as `grpc` or `rest`; undefined if the request is not a call. */
  readonly protocolName?: string | undefined;
  /** The headers of the request, by lower-case name. Empty if node:http could not parse the request. */
  readonly headers: HeaderRecord;
  /** The context values of the call; undefined if the request is refused before its call is created. */
  readonly contextValues?: ContextValues;
  /** The time at which the request arrived, in milliseconds of Unix time. Default: the current time. */
  readonly arrived?: number;
}

/** Creates the response to a request that is refused before a route serves it. */
export type Refuse = (refusal: Refusal, headers: HeaderRecord, method?: DescMethod) => HttpResponse;

/**
 * Creates the error for the client of a refused request. The transport calls this function once per refused request.
 */
export type OnRefused = (refusal: Refusal, request: RefusedRequest) => ConnectError;

/**
 * The HTTP status of each kind of refusal, for endpoints and for requests that no route serves. If a kind has no status
 * here, the error code determines the status.
 */
export const REFUSAL_STATUS: { readonly [kind in Refusal["kind"]]?: number } = {
  "malformed-http": 400,
  "malformed-compression": 400,
  "not-found": 404,
  "http-method": 405,
  "request-timeout": 408,
  "message-too-large": 413,
  "content-type": 415,
  "content-encoding": 415,
  "expectation-failed": 417,
  "too-many-streams": 429,
  "header-too-large": 431,
  "transfer-coding": 501,
  "too-many-bodies": 503,
  overloaded: 503,
};

/** Creates the default response to a refused request. The response contains only a status. */
export function bareRefusal({ kind }: Refusal): HttpResponse {
  return { status: REFUSAL_STATUS[kind] ?? 400, headers: {}, body: "" };
}

/** The error for the client of a refused request. If `status` is undefined, the error code determines the status. */
export interface Refused {
  readonly error: ConnectError;
  readonly status: number | undefined;
}

export function defaultError(refusal: Refusal): ConnectError {
  if ("error" in refusal) return asConnectError(refusal.error);
  const code = refusal.kind === "overloaded" ? Code.ResourceExhausted : Code.Unknown;
  return new ConnectError(`request refused: ${refusal.kind}`, code);
}

/**
 * Converts a thrown value to an error for the client. If the value is not a ConnectError, the client receives only the
 * text `internal error`.
 */
export function asConnectError(reason: unknown): ConnectError {
  if (reason instanceof ConnectError) return reason;
  return new ConnectError("internal error", Code.Internal, undefined, undefined, reason);
}

/** Thrown by decoders and by endpoints to refuse a request. */
export class RefusalError extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.kind, "error" in refusal ? { cause: refusal.error } : undefined);
    this.name = "RefusalError";
    this.refusal = refusal;
  }
}

/** Creates the error for a message longer than `maxBytes`. @param text the message of Connect's error */
export function messageTooLarge(maxBytes: number, text: string): RefusalError {
  const error = new ConnectError(text, Code.ResourceExhausted);
  return new RefusalError({ kind: "message-too-large", maxBytes, error });
}

export function refusalOf(reason: unknown): Refusal {
  return reason instanceof RefusalError ? reason.refusal : { kind: "protocol", error: asConnectError(reason) };
}

/** The maximum size of a stream's request messages, in bytes. Set by the transport. */
export const kReadMaxBytes = createContextKey(Number.POSITIVE_INFINITY, { description: "maximum size of messages" });

/** Returns the refusal for an error that Connect's handler throws while it reads the messages of a stream. */
export function streamRefusal(error: ConnectError, { header, contextValues }: StreamRequest): Refusal {
  if (error.code === Code.ResourceExhausted) {
    return { kind: "message-too-large", maxBytes: contextValues.get(kReadMaxBytes), error };
  }
  const { isBinary } = formatOf(header.get("content-type"));
  const isMalformed = isBinary ? error.code === Code.Internal : error.cause !== undefined;
  return isMalformed ? { kind: "malformed-message", isBinary, error } : { kind: "protocol", error };
}
