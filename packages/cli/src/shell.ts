import type { Readable, Writable } from "node:stream";

/** What a run of `ugs` reads and writes. The process has one; tests give others. */
export interface Shell {
  readonly env: { readonly [name: string]: string | undefined };
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & TerminalSize;
  readonly stderr: Writable & TerminalSize;
  /** Aborts when a signal ends the run; its reason is an `Interrupted`. */
  readonly signal: AbortSignal;
}

/** The size of a stream that is a terminal. */
interface TerminalSize {
  readonly isTTY?: boolean;
  /** Its width in characters. */
  readonly columns?: number;
}

/** Why a run ends early: somebody pressed Ctrl-C, or the system ends the process. */
export class Interrupted extends Error {
  /** By convention 128 plus the number of the signal. */
  readonly exitCode: number;

  constructor(signal: "SIGINT" | "SIGTERM" = "SIGINT") {
    super("interrupted");
    this.exitCode = signal === "SIGINT" ? 130 : 143;
  }
}

/** Rejects when the run is interrupted. @throws the reason of the signal */
export function interruption({ signal }: Pick<Shell, "signal">): Promise<never> {
  return new Promise((_, reject) => {
    const end = () => reject(signal.reason);
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
  });
}
