import type { Readable, Writable } from "node:stream";

/** The environment and the streams of a command. Tests pass their own. */
export interface Shell {
  readonly env: { readonly [name: string]: string | undefined };
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & TerminalSize;
  readonly stderr: Writable & TerminalSize;
  /** Aborts at SIGINT or SIGTERM. Its reason is an `Interrupted`. */
  readonly signal: AbortSignal;
}

interface TerminalSize {
  readonly isTTY?: boolean;
  /** The width in characters. */
  readonly columns?: number;
}

/** The user pressed Ctrl-C, or the system terminates the process. */
export class Interrupted extends Error {
  /** By convention 128 plus the number of the signal. */
  readonly exitCode: number;

  constructor(signal: "SIGINT" | "SIGTERM" = "SIGINT") {
    super("interrupted");
    this.exitCode = signal === "SIGINT" ? 130 : 143;
  }
}

/** Rejects when the signal aborts. @throws its reason */
export function interruption({ signal }: Pick<Shell, "signal">): Promise<never> {
  return new Promise((_, reject) => {
    const end = () => reject(signal.reason);
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
  });
}
