import { setImmediate, setTimeout } from "node:timers";

/**
 * Whether the runtime is Deno, which reads sockets only in every 61st turn of the event loop while immediates are
 * scheduled.
 */
export const IMMEDIATES_DELAY_READS = "Deno" in globalThis;

/**
 * Calls `run` in the next turn of the event loop, after sockets are read. Deno waits for at least a millisecond.
 *
 * A function that may run while an HTTP/2 session is reading must use `afterReading` to close the session or its
 * streams. Node 20.20 corrupts its memory if a session closes while the session is reading, or if a stream with unsent
 * bytes closes while its session is reading.
 */
export function afterReading(run: () => void): void {
  if (IMMEDIATES_DELAY_READS) setTimeout(run, 0);
  else setImmediate(run);
}
