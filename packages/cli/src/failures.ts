/** The exit codes. docs/cli.md lists them. */
export const EXIT = {
  ok: 0,
  /** An unexpected error in `ugs` or in the service. */
  failed: 1,
  /** The command line, a setting, a file or an answer to a prompt is not valid. */
  usage: 2,
  notFound: 3,
  /** The service rejected the token, or the role of the token is too low. */
  denied: 4,
  /** The state of a resource forbids the change: the resource already exists, was changed, or is not empty. */
  conflict: 5,
  /** The service cannot be reached, is overloaded, or did not respond in time. */
  unavailable: 6,
  /** The command finished, but it rejected or skipped groups, or it found that the input and the service differ. */
  incomplete: 7,
} as const;

export const CONTINUE = "run the same command again to continue";

interface FailureDetail {
  readonly exitCode: number;
  /** Advice for the user. The text does not end with a full stop. */
  readonly hint?: string | undefined;
  /** The Connect code of the error, such as `not_found`. */
  readonly code?: string | undefined;
  /** The `google.rpc.ErrorInfo.reason` of the error. */
  readonly reason?: string | undefined;
  readonly requestId?: string | undefined;
  /** The outcome of a failed change. If the outcome is `unknown`, the change may have been committed nevertheless. */
  readonly outcome?: "not_made" | "unknown" | undefined;
  readonly violations?: readonly { readonly field: string; readonly description: string }[];
  readonly cause?: unknown;
}

export class Failure extends Error {
  readonly detail: FailureDetail;

  constructor(message: string, detail: FailureDetail) {
    super(message, { cause: detail.cause });
    this.detail = detail;
  }
}

export function reasonOf(error: unknown): string | undefined {
  return error instanceof Failure ? error.detail.reason : undefined;
}

export function isNotFound(error: unknown): error is Failure {
  return error instanceof Failure && error.detail.exitCode === EXIT.notFound;
}

/** Creates the failure for a mistake in the command line, a setting or a file. The exit code is 2. */
export function usageFailure(message: string, hint?: string): Failure {
  return new Failure(message, { exitCode: EXIT.usage, hint });
}

/** Thrown by a write to standard output if the reader of the pipe, such as `head`, has closed the pipe. */
export class OutputClosed extends Error {}
