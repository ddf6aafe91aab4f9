import type { HeaderRecord } from "./http-types.ts";
import type { Refusal } from "./protocol/refusals.ts";

/**
 * Tells which client a connection belongs to, or a request, by the peer's address and the headers of the request.
 * Undefined: a proxy, whose connections give way to nobody.
 */
export type ClientOf = (peerAddress: string, headers?: HeaderRecord) => string | undefined;

/** What streaming calls may use. How many streams of any kind an HTTP/2 connection has is `MAX_HTTP2_STREAMS`. */
interface StreamLimits {
  /**
   * How many may be open at once, together with bodies of calls that anyone may make and the rest of requests that are
   * answered already. Default: no limit.
   */
  readonly max?: number;
  /** How long a stream may last, in milliseconds. The client may then call again. Default: no limit. */
  readonly lifetimeMs?: number;
}

/** What clients may use of a port, and for how long in milliseconds, where nothing else is set. */
export const DEFAULT_LIMITS = {
  /** The client that a connection or request is charged to. */
  clientOf: ((peerAddress) => peerAddress) as ClientOf,
  /** How many connections may be open. At that limit the client that has the most gives way. */
  maxConnections: Infinity,
  streams: {} as StreamLimits,
  /** How long a connection may stay silent before its first request. */
  firstByteTimeoutMs: 10_000,
  /** How long the headers of a request may take to arrive. */
  headerTimeoutMs: 15_000,
  /** How long the body of a request may take to arrive. */
  arrivalTimeoutMs: 30_000,
  /** How long the body of a request that anyone may make may take to arrive: such requests hold only names. */
  openArrivalTimeoutMs: 5000,
  /** How long a client may take to read a response. */
  readTimeoutMs: 60_000,
  /**
   * How long an HTTP/2 connection may be idle, with not even a PING either way, before it accepts no new streams. Its
   * open streams may finish.
   */
  idleTimeoutMs: 600_000,
  /** How long the open streams of such a connection may stay idle before they are ended. */
  stallTimeoutMs: 30_000,
  /** How often broken HTTP/2 sessions are searched for. */
  deadSessionCheckMs: 10_000,
};

/** What clients may use of a port, and for how long. */
export type Limits = Readonly<typeof DEFAULT_LIMITS>;

/**
 * How long a whole request may take to arrive over HTTP/1.1, in milliseconds. node:http counts from the first byte of the
 * headers, and its time for the headers cannot be longer.
 */
export function requestTimeoutMs({ headerTimeoutMs, arrivalTimeoutMs }: Limits): number {
  return Math.max(headerTimeoutMs, arrivalTimeoutMs);
}

/** The maximum size of a request's headers, in bytes. */
export const MAX_HEADER_BYTES = 32 * 1024;

/**
 * How many streams a client may have open on one HTTP/2 connection. It is told so once, in the first SETTINGS: clients on
 * grpc-core stop sending on a connection that lowers it while calls are under way.
 */
export const MAX_HTTP2_STREAMS = 250;

/**
 * How many pipelined requests may wait behind the current one. Clients that pipeline at all send a few. Without a limit
 * node:http would accept as many as fit in a packet, which can be thousands.
 */
export const MAX_PIPELINED = 32;

const MIB = 1024 * 1024;

/** How much of an already answered request is read and discarded, in bytes. */
export const MAX_DISCARDED_BYTES = 16 * MIB;

/** How much memory slow bodies may hold, in bytes. */
export const BODY_BYTES = 64 * MIB;

/**
 * How much memory unread responses may hold, in bytes. On Deno less: Deno 2.9.3 never frees what is left to write to a
 * TLS connection when that is closed.
 */
export const RESPONSE_BYTES = { node: 64 * MIB, deno: 16 * MIB };

/**
 * How much memory node:http2 lets one connection hold, in its unit of 1,000,000 bytes. It has to lie above whatever the
 * limits above let a client hold: at this limit node:http2 refuses all streams of the connection, also those of other
 * clients behind the same proxy.
 */
export const SESSION_MEMORY_MB = Math.ceil((2 * (BODY_BYTES + RESPONSE_BYTES.node)) / 1_000_000);

/** How many looks, `deadSessionCheckMs` apart, a PING may stay unanswered. A client may take a minute to read a response. */
export const UNANSWERED_LOOKS = 6;

/** The longest delay of setTimeout, in milliseconds: nearly 25 days. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** The refusal of a request whose headers exceed `MAX_HEADER_BYTES`. */
export const HEADER_TOO_LARGE: Refusal = { kind: "header-too-large", maxBytes: MAX_HEADER_BYTES };
