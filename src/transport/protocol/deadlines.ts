import type { HeaderRecord } from "../exchange.ts";

/** The longest time that setTimeout can wait, in milliseconds: nearly 25 days. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

const HOURS = Math.floor(MAX_TIMER_MS / 3_600_000);
const MILLISECONDS_IN = { H: 3_600_000, M: 60_000, S: 1000 };

/**
 * Brings a deadline within the reach of a timer: Connect's adapters hand every
 * deadline to setTimeout, which makes one that is too long pass at once, and
 * writes a warning. Malformed ones stay as they are, for Connect to refuse.
 *
 * @param headers are changed
 */
export function capDeadline(headers: HeaderRecord): void {
  const grpc = headers["grpc-timeout"];
  if (typeof grpc === "string" && grpcIsTooLong(grpc)) headers["grpc-timeout"] = `${HOURS}H`;
  const connect = headers["connect-timeout-ms"];
  if (typeof connect === "string" && /^\d{1,10}$/.test(connect) && Number(connect) > MAX_TIMER_MS) {
    headers["connect-timeout-ms"] = String(HOURS * MILLISECONDS_IN.H);
  }
}

function grpcIsTooLong(text: string): boolean {
  // Eight digits of milliseconds or less are within a timer's reach.
  const parts = /^(\d{1,8})([HMS])$/.exec(text);
  return parts !== null && Number(parts[1]) * MILLISECONDS_IN[parts[2] as "H" | "M" | "S"] > MAX_TIMER_MS;
}
