import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues, createContextKey, type StreamRequest } from "@connectrpc/connect";
import type { HeaderRecord, HttpResponse } from "../http-types.ts";
import { formatOf } from "./headers.ts";

/** Why a request is refused before it becomes a call. `error` is Connect's error, if it has one. */
export type Refusal =
  | { readonly kind: "malformed-http" }
  /** A `Transfer-Encoding` other than `chunked`. */
  | { readonly kind: "transfer-coding" }
  /** The request did not arrive in time. */
  | { readonly kind: "request-timeout"; readonly headerMs: number; readonly requestMs: number }
  /** An `Expect` other than `100-continue`. */
  | { readonly kind: "expectation-failed" }
  /** The headers are larger than `maxBytes`. */
  | { readonly kind: "header-too-large"; readonly maxBytes: number }
  | { readonly kind: "too-many-streams" }
  /** Incomplete bodies use up their memory budget. */
  | { readonly kind: "too-many-bodies" }
  | { readonly kind: "too-many-calls"; readonly maxCalls: number }
  /** Nothing is served at this path. */
  | { readonly kind: "not-found" }
  | { readonly kind: "http-method"; readonly httpMethod: string; readonly allowed: readonly string[] }
  | { readonly kind: "content-type" }
  /** The encoding of an endpoint's request is none of those accepted. */
  | { readonly kind: "content-encoding"; readonly accepted: readonly string[] }
  /** `authorize` threw this error. */
  | { readonly kind: "unauthorized"; readonly error: unknown }
  /** A message is longer than `maxBytes`, before or after decompression. */
  | { readonly kind: "message-too-large"; readonly maxBytes: number; readonly error: ConnectError }
  | { readonly kind: "malformed-compression"; readonly encoding: string; readonly error: ConnectError }
  | { readonly kind: "malformed-message"; readonly isBinary: boolean; readonly error: ConnectError }
  /** Another protocol error, such as an unknown encoding, a malformed deadline, or a second message. */
  | { readonly kind: "protocol"; readonly error: ConnectError }
  /** The message of the response cannot be encoded. */
  | { readonly kind: "unencodable"; readonly error: ConnectError }
  /** An endpoint threw this error. */
  | { readonly kind: "endpoint"; readonly error: unknown };

/** A refused request. */
export interface RefusedRequest {
  /** The RPC that the request is for, if there is one. */
  readonly method?: DescMethod | undefined;
  /**
   * `grpc`, `grpc-web`, `connect`, or the protocol name of an endpoint; undefined when the request cannot be a call.
   */
  readonly protocolName?: string | undefined;
  readonly header: Headers;
  /** The context values of the call; undefined when the request did not become one. */
  readonly contextValues?: ContextValues;
  /** When the request arrived, in milliseconds of Unix time; undefined: now. */
  readonly arrived?: number;
}

/**
 * Makes the response to a request that is refused before a route serves it.
 *
 * @param headers the request's headers, as far as they are known
 * @param method the RPC that the request is for, if it is known
 */
export type Refuse = (refusal: Refusal, headers: HeaderRecord, method?: DescMethod) => HttpResponse;

/** Makes the error for the client of a refused request. Called once per refused request. */
export type OnRefused = (refusal: Refusal, request: RefusedRequest) => ConnectError | SharedRefusal;

/** An error that many requests are refused with. It is encoded once for each protocol, so that refusals cost little. */
export class SharedError {
  readonly error: ConnectError;
  /** The encoded error: trailers for gRPC and gRPC-Web, responses for Connect and for endpoints. */
  grpc: HeaderRecord | undefined;
  connect: HttpResponse | undefined;
  http: HttpResponse | undefined;

  constructor(error: ConnectError) {
    this.error = error;
  }
}

/** A shared error, and the headers that one response adds to it. */
export interface SharedRefusal {
  readonly shared: SharedError;
  /** Sent like the error's metadata. */
  readonly headers: HeaderRecord;
}

/** The HTTP status of a refusal outside of the RPC protocols, where it differs from that of the error's code. */
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
  "too-many-calls": 503,
};

/** The response to a refused request that is not a call, if `onRefused` provides no error: a bare status. */
export function bareRefusal({ kind }: Refusal): HttpResponse {
  return { status: REFUSAL_STATUS[kind] ?? 400, headers: {}, body: "" };
}

/** A refused request's error for the client, and its HTTP status; undefined: that of the error's code. */
export interface Refused extends Partial<SharedRefusal> {
  readonly error: ConnectError;
  readonly status: number | undefined;
}

/** Refuses a request. */
export function refuse(refusal: Refusal, request: RefusedRequest, onRefused: OnRefused | undefined): Refused {
  const told = onRefused?.(refusal, request) ?? defaultError(refusal);
  const status = REFUSAL_STATUS[refusal.kind];
  return "shared" in told ? { ...told, error: told.shared.error, status } : { error: told, status };
}

/** The error for the client, if `onRefused` does not provide one. */
function defaultError(refusal: Refusal): ConnectError {
  if ("error" in refusal) return asConnectError(refusal.error);
  const code = refusal.kind === "too-many-calls" ? Code.ResourceExhausted : Code.Unknown;
  return new ConnectError(`request refused: ${refusal.kind}`, code);
}

/** Converts anything thrown to an error for the client. The details of errors other than ConnectError are hidden. */
export function asConnectError(reason: unknown): ConnectError {
  if (reason instanceof ConnectError) return reason;
  return new ConnectError("internal error", Code.Internal, undefined, undefined, reason);
}

/** Thrown to refuse a request: when its bytes cannot be decoded to its message, and by endpoints. */
export class RefusalError extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.kind, "error" in refusal ? { cause: refusal.error } : undefined);
    this.name = "RefusalError";
    this.refusal = refusal;
  }
}

/** Refuses a message that is longer than `maxBytes`. @param text the text of Connect's error */
export function messageTooLarge(maxBytes: number, text: string): RefusalError {
  const error = new ConnectError(text, Code.ResourceExhausted);
  return new RefusalError({ kind: "message-too-large", maxBytes, error });
}

/** The refusal for an error that reading a request threw. */
export function refusalOf(reason: unknown): Refusal {
  return reason instanceof RefusalError ? reason.refusal : { kind: "protocol", error: asConnectError(reason) };
}

/** How long the request messages of a stream may be, in bytes; set by the transport. */
export const kReadMaxBytes = createContextKey(Number.POSITIVE_INFINITY, { description: "maximum size of messages" });

/** The refusal for an error that Connect's own handler threw while it read the messages of a stream. */
export function streamRefusal(error: ConnectError, { header, contextValues }: StreamRequest): Refusal {
  if (error.code === Code.ResourceExhausted) {
    return { kind: "message-too-large", maxBytes: contextValues.get(kReadMaxBytes), error };
  }
  const { isBinary } = formatOf(header.get("content-type") ?? undefined);
  const isMalformed = isBinary ? error.code === Code.Internal : error.cause !== undefined;
  return isMalformed ? { kind: "malformed-message", isBinary, error } : { kind: "protocol", error };
}
