import type { HeaderRecord } from "../exchange.ts";

/**
 * Fields that Connect quotes whole when it refuses them, percent-encoded in a
 * field of the answer. Of 24 KiB, such an answer is too large to be sent.
 */
const QUOTED = [
  "connect-content-encoding",
  "connect-protocol-version",
  "connect-timeout-ms",
  "content-encoding",
  "grpc-encoding",
  "grpc-timeout",
] as const;

/** Longer values are none that Connect takes, and are refused when they are cut as well. */
const MAX_LENGTH = 64;

/** Cuts the fields of a request that would be quoted in its answer. @param headers are changed */
export function cutQuotedFields(headers: HeaderRecord): void {
  for (const name of QUOTED) {
    const value = headers[name];
    if (typeof value === "string" && value.length > MAX_LENGTH) headers[name] = value.slice(0, MAX_LENGTH);
  }
}
