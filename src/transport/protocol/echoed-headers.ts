import type { HeaderRecord } from "../exchange.ts";

/**
 * Headers that Connect echoes in full, percent-encoded in a response header, when it refuses them. The echo of a 24 KiB
 * header would be too large to send.
 */
const QUOTED = [
  "connect-content-encoding",
  "connect-protocol-version",
  "connect-timeout-ms",
  "content-encoding",
  "grpc-encoding",
  "grpc-timeout",
] as const;

/** No valid value is longer. A truncated value is refused as well. */
const MAX_LENGTH = 64;

/**
 * Truncates request headers that an error response would echo.
 *
 * @param headers modified in place
 */
export function truncateEchoedHeaders(headers: HeaderRecord): void {
  for (const name of QUOTED) {
    const value = headers[name];
    if (typeof value === "string" && value.length > MAX_LENGTH) headers[name] = value.slice(0, MAX_LENGTH);
  }
}
