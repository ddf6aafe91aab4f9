import { InvalidInput } from "../../operator/src/input.ts";

/** The exit codes, by the kind of failure. docs/cli.md lists them. */
export const EXIT = {
  ok: 0,
  /** An unexpected error, here or in the service. */
  failed: 1,
  /** The command line, a setting, a file or an answer is not valid. */
  usage: 2,
  notFound: 3,
  /** The token is unknown, or its role is too low. */
  denied: 4,
  /** The current state forbids the change: a resource already exists, was changed, or is not empty. */
  conflict: 5,
  /** The service cannot be reached, is overloaded, or did not respond in time. */
  unavailable: 6,
  /** The transfer finished, but groups were rejected, or the two sides differ. */
  incomplete: 7,
} as const;

/** The hint for a transfer that another run continues. */
export const CONTINUE = "run the same command again to continue";

interface FailureDetail {
  readonly exitCode: number;
  /** What to do, without a full stop. */
  readonly hint?: string | undefined;
  /** The Connect code of the error, such as `not_found`. */
  readonly code?: string | undefined;
  /** The `google.rpc.ErrorInfo.reason` of the error. */
  readonly reason?: string | undefined;
  readonly requestId?: string | undefined;
  /** Whether the service may have made the failed change. */
  readonly outcome?: "not_made" | "unknown" | undefined;
  readonly violations?: readonly { readonly field: string; readonly description: string }[];
  readonly cause?: unknown;
}

/** A failure with a message for the user, and its exit code. */
export class Failure extends Error {
  readonly detail: FailureDetail;

  constructor(message: string, detail: FailureDetail) {
    super(message, { cause: detail.cause });
    this.detail = detail;
  }
}

/** Whether a call failed because something does not exist. */
export function isNotFound(error: unknown): error is Failure {
  return error instanceof Failure && error.detail.exitCode === EXIT.notFound;
}

/** A failure that the user fixes in the command line, a setting or a file. Nothing was done. */
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

/** The reader of standard output, such as `head`, closed it. */
export class OutputClosed extends Error {}
