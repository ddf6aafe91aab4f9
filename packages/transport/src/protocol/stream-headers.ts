import type { HeaderRecord } from "../http-types.ts";
import { MAX_TIMER_MS } from "../limits.ts";
import { connectProtocol } from "./connect.ts";
import { grpcProtocol } from "./grpc.ts";
import { formatOf, headerValue } from "./headers.ts";

/** The number of milliseconds that no longer fits the eight digits of `grpc-timeout`. */
const TOO_LONG_FOR_GRPC_MS = 100_000_000;

/**
 * Headers that Connect echoes in full, percent-encoded in a response header, when it refuses them. The echo of a 24 KiB
 * header would be too large to send.
 */
const ECHOED = [
  "connect-content-encoding",
  "connect-protocol-version",
  "connect-timeout-ms",
  "content-encoding",
  "grpc-encoding",
  "grpc-timeout",
] as const;

/** No valid value is longer. A truncated value is refused as well. */
const MAX_ECHOED_LENGTH = 64;

/**
 * Prepares the headers of a request for Connect's own handler: truncates those that it would echo, and limits the
 * deadline, so that the stream ends with an error of its own protocol.
 *
 * @param headers modified in place
 * @param lifetimeMs how long the stream may last, in milliseconds; Infinity: without limit
 */
export function prepareStreamHeaders(headers: HeaderRecord, lifetimeMs: number): void {
  for (const name of ECHOED) {
    const value = headers[name];
    if (typeof value === "string" && value.length > MAX_ECHOED_LENGTH)
      headers[name] = value.slice(0, MAX_ECHOED_LENGTH);
  }
  const isGrpc = formatOf(headers["content-type"]).protocol !== "connect";
  const { timeoutHeader: name, parseTimeout } = isGrpc ? grpcProtocol : connectProtocol;
  const { timeoutMs = lifetimeMs, error } = parseTimeout(headerValue(headers, name), Infinity);
  // Connect refuses a malformed deadline.
  if (error !== undefined || timeoutMs === Infinity) return;
  // Connect passes the deadline to setTimeout, which fires at once when the delay is too long.
  const ms = Math.min(timeoutMs, lifetimeMs, MAX_TIMER_MS);
  if (headers[name] !== undefined && ms === timeoutMs) return;
  headers[name] = !isGrpc ? String(ms) : ms < TOO_LONG_FOR_GRPC_MS ? `${ms}m` : `${Math.trunc(ms / 1000)}S`;
}
