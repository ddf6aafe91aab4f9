import type { HeaderRecord } from "../exchange.ts";

/** The longest delay of setTimeout, in milliseconds: nearly 25 days. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

const HOURS = Math.floor(MAX_TIMER_MS / 3_600_000);
const MILLISECONDS_IN = { H: 3_600_000, M: 60_000, S: 1000 };

/**
 * Caps a deadline at the longest delay of setTimeout. Connect's adapters pass every deadline to setTimeout, which fires
 * at once and prints a warning when the delay is too long. Malformed deadlines stay as they are, for Connect to refuse.
 *
 * @param headers modified in place
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
  // gRPC allows eight digits. In milliseconds or smaller units they always fit a timer.
  const parts = /^(\d{1,8})([HMS])$/.exec(text);
  return parts !== null && Number(parts[1]) * MILLISECONDS_IN[parts[2] as "H" | "M" | "S"] > MAX_TIMER_MS;
}
