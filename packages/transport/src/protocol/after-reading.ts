import { setImmediate, setTimeout } from "node:timers";

/**
 * Whether the runtime is Deno. While immediates are scheduled, Deno reads sockets only once in 61 turns of the event
 * loop.
 */
export const IMMEDIATES_DELAY_READS = "Deno" in globalThis;

/** Calls a function after the sockets have been read, in the next turn of the event loop. On Deno, this takes at least a millisecond. */
export function afterReading(run: () => void): void {
  if (IMMEDIATES_DELAY_READS) setTimeout(run, 0);
  else setImmediate(run);
}
