import { InvalidInput } from "../../operator/src/input.ts";

/** The exit codes, by the kind of failure. docs/cli.md lists them. */
export const EXIT = {
  ok: 0,
  /** An unexpected error, here or in the service. */
  failed: 1,
  /** The command line, a setting, a file or an answer to a question is not right. */
  usage: 2,
  notFound: 3,
  /** The service does not know the token, or its role is too low. */
  denied: 4,
  /** The present state forbids it: something exists already, has changed meanwhile, or is not empty. */
  conflict: 5,
  /** The service cannot be reached, is overloaded, or did not answer in time. */
  unavailable: 6,
  /** The transfer has ended, but groups were rejected, or the two sides differ. */
  incomplete: 7,
} as const;

/** What is known of a failure beside its message. */
interface FailureDetail {
  readonly exitCode: number;
  /** What to do, in a sentence or two without a full stop. */
  readonly hint?: string | undefined;
  /** The code that the service answered with, as Connect names it, such as `not_found`. */
  readonly code?: string | undefined;
  /** The `google.rpc.ErrorInfo.reason` that the service answered with. */
  readonly reason?: string | undefined;
  /** The id of the call in the log of the service. */
  readonly requestId?: string | undefined;
  /** What became of a change that failed. */
  readonly outcome?: "not_made" | "unknown" | undefined;
  readonly violations?: readonly { readonly field: string; readonly description: string }[];
  readonly cause?: unknown;
}

/** A failure that the user can understand, and its exit code. */
export class Failure extends Error {
  readonly detail: FailureDetail;

  constructor(message: string, detail: FailureDetail) {
    super(message, { cause: detail.cause });
    this.detail = detail;
  }
}

/** A failure for which the command line, a setting or a file has to be mended. Nothing was done. */
export function usageFailure(message: string, hint?: string): Failure {
  return new Failure(message, { exitCode: EXIT.usage, hint });
}

/** Turns an `InvalidInput` of a parser into a failure of the command line. @throws Failure */
export function inputFailure<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw error instanceof InvalidInput ? usageFailure(error.message.replace(/\.$/, "")) : error;
  }
}

/** The reader of standard output has gone, as `head` does once it has enough. */
export class OutputClosed extends Error {}
