import { setImmediate, setTimeout } from "node:timers";

/** Whether the runtime is Deno, which reads sockets only once in 61 turns while immediates are scheduled. */
export const IMMEDIATES_DELAY_READS = "Deno" in globalThis;

/** Calls a function after the sockets have been read, in the next turn. On Deno, this takes at least a millisecond. */
export function afterReading(run: () => void): void {
  if (IMMEDIATES_DELAY_READS) setTimeout(run, 0);
  else setImmediate(run);
}
