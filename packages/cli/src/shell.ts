import type { Readable, Writable } from "node:stream";

export interface Shell {
  readonly env: { readonly [name: string]: string | undefined };
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & TerminalSize;
  readonly stderr: Writable & TerminalSize;
  /** Aborts at SIGINT or SIGTERM. The abort reason is an `Interrupted`. */
  readonly signal: AbortSignal;
}

interface TerminalSize {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** Thrown if SIGINT (Ctrl-C) or SIGTERM interrupts a command. */
export class Interrupted extends Error {
  /** The exit code: 128 plus the number of the signal, by convention. */
  readonly exitCode: number;

  constructor(signal: "SIGINT" | "SIGTERM" = "SIGINT") {
    super("interrupted");
    this.exitCode = signal === "SIGINT" ? 130 : 143;
  }
}
