import type { HeaderRecord } from "../http-types.ts";
import { MAX_TIMER_MS } from "../limits.ts";
import { connectProtocol } from "./connect.ts";
import { grpcProtocol } from "./grpc.ts";
import { formatOf, headerValue } from "./headers.ts";

/** The smallest number with nine digits. A `grpc-timeout` has at most eight digits. */
const TOO_LONG_FOR_GRPC_MS = 100_000_000;

/** Request headers whose refused values Connect repeats in a response header. A value of 24 KiB could not be sent. */
const ECHOED = [
  "connect-content-encoding",
  "connect-protocol-version",
  "connect-timeout-ms",
  "content-encoding",
  "grpc-encoding",
  "grpc-timeout",
] as const;

/** The maximum length of a valid value. A truncated value is not valid, so Connect still refuses the header. */
const MAX_ECHOED_LENGTH = 64;

/**
 * Prepares request headers for Connect's own handler. Truncates the headers that Connect repeats. Limits the deadline
 * to the maximum duration, so that the stream ends with an error of its protocol.
 *
 * @param headers modified in place
 * @param lifetimeMs the maximum duration of the stream in milliseconds; Infinity for no limit
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
  // Connect itself refuses a malformed deadline.
  if (error !== undefined || timeoutMs === Infinity) return;
  // Connect passes the deadline to setTimeout, which fires immediately if the delay is too long.
  const ms = Math.min(timeoutMs, lifetimeMs, MAX_TIMER_MS);
  if (headers[name] !== undefined && ms === timeoutMs) return;
  headers[name] = !isGrpc ? String(ms) : ms < TOO_LONG_FOR_GRPC_MS ? `${ms}m` : `${Math.trunc(ms / 1000)}S`;
}
