import type { HeaderRecord } from "../http-types.ts";
import { MAX_TIMER_MS } from "../limits.ts";
import { connectProtocol } from "./connect.ts";
import { grpcProtocol } from "./grpc.ts";
import { formatOf, headerValue } from "./headers.ts";

/** The smallest number with nine digits. A `grpc-timeout` has at most eight digits. */
const TOO_LONG_FOR_GRPC_MS = 100_000_000;

/**
 * If Connect refuses the value of one of these request headers, Connect repeats the value in a response header. If the
 * value had 24 KiB, the response header could not be sent.
 */
const ECHOED = [
  "connect-content-encoding",
  "connect-protocol-version",
  "connect-timeout-ms",
  "content-encoding",
  "grpc-encoding",
  "grpc-timeout",
] as const;

/**
 * The maximum length of a value of the headers in `ECHOED`. Longer values are truncated to this length. Valid values
 * are shorter, so Connect refuses a truncated value as well.
 */
const MAX_ECHOED_LENGTH = 64;

/**
 * Prepares the request headers of a streaming call for Connect's handler. Truncates the headers that Connect would
 * repeat in a response. Limits the deadline of the call to `lifetimeMs`. When this deadline passes, Connect's handler
 * ends the stream with an error of the protocol.
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
  // Connect passes the deadline to setTimeout. A timer beyond `MAX_TIMER_MS` would fire immediately.
  const ms = Math.min(timeoutMs, lifetimeMs, MAX_TIMER_MS);
  if (headers[name] !== undefined && ms === timeoutMs) return;
  headers[name] = !isGrpc ? String(ms) : ms < TOO_LONG_FOR_GRPC_MS ? `${ms}m` : `${Math.trunc(ms / 1000)}S`;
}
