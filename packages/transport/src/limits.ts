import type { HeaderRecord } from "./http-types.ts";
import type { Refusal } from "./protocol/refusals.ts";

/**
 * If `headers` is given, returns the client of a request. If `headers` is omitted, returns the client of a connection,
 * or undefined if the peer is a proxy. The connections of a proxy are never closed to make room for other clients.
 */
export type ClientOf = (peerAddress: string, headers?: HeaderRecord) => string | undefined;

/** Limits of streaming calls. `MAX_HTTP2_STREAMS` limits the streams of one HTTP/2 connection. */
interface StreamLimits {
  /**
   * The maximum number of open streaming calls. Two other kinds of requests count as well: requests to open methods
   * (`isOpen`) whose bodies arrive slowly, and answered requests whose bodies have not completely arrived. Default: no
   * limit.
   */
  readonly max?: number;
  /** The maximum duration of a stream, in milliseconds. A client can call again after this time. Default: no limit. */
  readonly lifetimeMs?: number;
}

/** The default limits of a port. Times are in milliseconds. */
export const DEFAULT_LIMITS = {
  clientOf: ((peerAddress) => peerAddress) as ClientOf,
  /** The maximum number of open connections. At the limit, the client with the most connections loses a connection. */
  maxConnections: Infinity,
  streams: {} as StreamLimits,
  /** The maximum time between the start of a connection and its first byte. */
  firstByteTimeoutMs: 10_000,
  /** The maximum time for the headers of an HTTP/1.1 request to arrive. */
  headerTimeoutMs: 15_000,
  /** The maximum time for the body of a request to arrive. */
  arrivalTimeoutMs: 30_000,
  /** The maximum time for the body of an open method to arrive. */
  openArrivalTimeoutMs: 5000,
  /** The maximum time for a client to read a response. */
  readTimeoutMs: 60_000,
  /** The interval between checks for dead HTTP/2 sessions. */
  deadSessionCheckMs: 10_000,
};

export type Limits = Readonly<typeof DEFAULT_LIMITS>;

/**
 * Returns the maximum time for a whole request to arrive, in milliseconds. node:http requires that this time is not
 * below the maximum time for the headers.
 */
export function requestTimeoutMs({ headerTimeoutMs, arrivalTimeoutMs }: Limits): number {
  return Math.max(headerTimeoutMs, arrivalTimeoutMs);
}

/** The maximum size of a request's headers, in bytes. */
export const MAX_HEADER_BYTES = 32 * 1024;

/**
 * The maximum number of open streams of one HTTP/2 connection. With a higher limit, a busy server would serve fewer
 * calls per second (docs/decisions/0012-overload.md). With a lower limit, some calls would fail, because many clients
 * and proxies assume 100 until they have read the SETTINGS frame (RFC 9113, 6.5.2).
 *
 * Do not lower this limit on an open connection. If a server lowers it, clients that use grpc-core stop sending.
 */
export const MAX_HTTP2_STREAMS = 100;

/**
 * The maximum number of pipelined requests that wait on one connection. One packet can contain thousands of requests.
 */
export const MAX_PIPELINED = 32;

const MIB = 1024 * 1024;

/** The maximum number of body bytes that the server reads and discards after it has answered a request. */
export const MAX_DISCARDED_BYTES = 16 * MIB;

/** The memory budget for request bodies that arrive slowly, in bytes. */
export const BODY_BYTES = 64 * MIB;

/**
 * The memory budget for responses that clients have not read yet, in bytes. The budget is smaller on Deno, because Deno
 * 2.9.3 never frees the unwritten bytes of closed TLS connections.
 */
export const RESPONSE_BYTES = { node: 64 * MIB, deno: 16 * MIB };

/**
 * node:http2's memory limit of one connection, in units of 1,000,000 bytes. At this limit, node:http2 refuses all
 * streams of the connection, even streams of other clients behind the same proxy. This limit must therefore exceed the
 * sum of `BODY_BYTES` and `RESPONSE_BYTES`.
 */
export const SESSION_MEMORY_MB = Math.ceil((2 * (BODY_BYTES + RESPONSE_BYTES.node)) / 1_000_000);

/**
 * If a client has not answered a PING after this number of checks, the server ends its connection. The server checks
 * once every `deadSessionCheckMs`. A slow client may need a minute to answer.
 */
export const UNANSWERED_CHECKS = 6;

/** The maximum delay of setTimeout, in milliseconds (25 days). */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** The refusal of a request whose headers exceed `MAX_HEADER_BYTES`. */
export const HEADER_TOO_LARGE: Refusal = { kind: "header-too-large", maxBytes: MAX_HEADER_BYTES };
