import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { formatOf } from "./content-types.ts";

/** Why a request is refused before it is a call. Where Connect has an error for it, that is `error`. */
export type Refusal =
  /** No HTTP as it should be: 400. */
  | { readonly kind: "malformed-http" }
  /** The request did not arrive in time: 408. */
  | { readonly kind: "request-timeout"; readonly headerMs: number; readonly requestMs: number }
  /** An `Expect` that says something else than `100-continue`: 417. */
  | { readonly kind: "expectation-failed" }
  /** More header fields than allowed, in bytes: 431. */
  | { readonly kind: "header-too-large"; readonly limit: number }
  /** 429. */
  | { readonly kind: "too-many-streams" }
  /** Incomplete bodies take as much memory as they may: 503. */
  | { readonly kind: "too-many-bodies" }
  | { readonly kind: "too-many-calls"; readonly limit: number }
  /** There is nothing at this path. */
  | { readonly kind: "not-found" }
  | { readonly kind: "http-method"; readonly httpMethod: string; readonly allowed: readonly string[] }
  | { readonly kind: "content-type" }
  /** What `authorize` threw. */
  | { readonly kind: "unauthorized"; readonly error: unknown }
  /** A message over the limit, in bytes, before or after it was inflated. */
  | { readonly kind: "message-too-large"; readonly limit: number; readonly error: ConnectError }
  | { readonly kind: "malformed-compression"; readonly encoding: string; readonly error: ConnectError }
  | { readonly kind: "malformed-message"; readonly isBinary: boolean; readonly error: ConnectError }
  /** Whatever else the protocol forbids: an encoding or a deadline that is none, one message too many. */
  | { readonly kind: "protocol"; readonly error: ConnectError }
  /** What an endpoint made of a request. */
  | { readonly kind: "endpoint"; readonly error: unknown };

/** A request that is refused. */
export interface RefusedRequest {
  /** The RPC that it is for, as far as there is one. */
  readonly method: DescMethod | undefined;
  /** `grpc`, `grpc-web`, `connect`, or that of an endpoint; undefined where nobody would make a call of it. */
  readonly protocolName: string | undefined;
  readonly header: Headers;
  /** When it came, in milliseconds of Unix time; undefined: now. */
  readonly arrived: number | undefined;
}

/** Tells what the caller of a refused request is told; it is asked once for each. */
export type OnRefused = (refusal: Refusal, request: RefusedRequest) => ConnectError;

/** HTTP's own status for a refusal, which the error's code does not tell. */
export const REFUSAL_STATUS: { readonly [kind in Refusal["kind"]]?: number } = {
  "malformed-http": 400,
  "not-found": 404,
  "http-method": 405,
  "request-timeout": 408,
  "content-type": 415,
  "expectation-failed": 417,
  "too-many-streams": 429,
  "header-too-large": 431,
  "too-many-bodies": 503,
};

/** What a caller is told of a refusal that has an error of Connect's, if nobody knows better. */
export function defaultError(refusal: Refusal): ConnectError {
  if ("error" in refusal) return asConnectError(refusal.error);
  const code = refusal.kind === "too-many-calls" ? Code.ResourceExhausted : Code.Unknown;
  return new ConnectError(`request refused: ${refusal.kind}`, code);
}

/** What a caller is told of anything thrown: Connect tells of its own errors alone. */
export function asConnectError(reason: unknown): ConnectError {
  if (reason instanceof ConnectError) return reason;
  return new ConnectError("internal error", Code.Internal, undefined, undefined, reason);
}

/** Thrown on the way from a request's bytes to its message. */
export class RequestRefused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal & { readonly error: ConnectError }) {
    super(refusal.kind, { cause: refusal.error });
    this.name = "RequestRefused";
    this.refusal = refusal;
  }
}

/** Why a request is refused, by what reading it threw. */
export function refusalOf(reason: unknown): Refusal {
  return reason instanceof RequestRefused ? reason.refusal : { kind: "protocol", error: asConnectError(reason) };
}

/**
 * Why a message of a stream is refused, by what Connect's own handler threw while it was read.
 *
 * @param contentType the request's
 * @param limit how long a message may be, in bytes
 */
export function streamRefusal(error: ConnectError, contentType: string | null, limit: number): Refusal {
  if (error.code === Code.ResourceExhausted) return { kind: "message-too-large", limit, error };
  const { isBinary } = formatOf(contentType ?? undefined);
  const isMalformed = isBinary ? error.code === Code.Internal : error.cause !== undefined;
  return isMalformed ? { kind: "malformed-message", isBinary, error } : { kind: "protocol", error };
}
