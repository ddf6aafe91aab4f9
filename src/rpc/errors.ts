import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { DomainError, StoreUnavailable, UserGroupSuspended } from "../domain/errors.ts";

/** The namespace of the error reasons: `google.rpc.ErrorInfo.domain`. */
const ERROR_DOMAIN = "user-group-service";

/** An invalid field of a request. `field` is the name of the field in the proto files. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

interface ErrorDetail {
  readonly reason: string;
  readonly violations?: readonly FieldViolation[];
  /** Additional values for programs: `google.rpc.ErrorInfo.metadata`. */
  readonly metadata?: { readonly [name: string]: string };
  readonly cause?: unknown;
}

export function callError(code: Code, message: string, detail: ErrorDetail): ConnectError {
  const error = new ConnectError(message, code, undefined, undefined, detail.cause);
  addDetail(error, detail);
  return error;
}

/**
 * Runs a function. Errors that the function creates get no stack trace, because a stack trace would take a fifth of the
 * CPU time of a refused call.
 */
export function withoutStackTrace<T>(make: () => T): T {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return make();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function addDetail(error: ConnectError, { reason, violations = [], metadata = {} }: ErrorDetail): void {
  error.details.push({ desc: ErrorInfoSchema, value: { reason, domain: ERROR_DOMAIN, metadata: { ...metadata } } });
  if (violations.length > 0) {
    error.details.push({
      desc: BadRequestSchema,
      value: { fieldViolations: violations.map(({ field, description }) => ({ field, description })) },
    });
  }
}

const REASONS: Partial<Record<Code, string>> = {
  [Code.Canceled]: "CANCELED",
  [Code.InvalidArgument]: "INVALID_REQUEST",
  [Code.DeadlineExceeded]: "DEADLINE_EXCEEDED",
  [Code.ResourceExhausted]: "MESSAGE_TOO_LARGE",
  [Code.Unimplemented]: "UNIMPLEMENTED",
  [Code.Unavailable]: "UNAVAILABLE",
};

/** Creates the error for a field that breaks a rule which the proto files cannot express. */
export function invalidField(field: string, description: string): ConnectError {
  const violations = [{ field, description }];
  return callError(Code.InvalidArgument, `${field}: ${description}`, { reason: "VALIDATION_FAILED", violations });
}

/**
 * Converts a failure to the error for the caller. An unexpected failure becomes Internal with a fixed message. The
 * `cause` of the error is logged and never sent.
 *
 * @param options `isForOperator`: whether the error says why the store is unavailable. Default: false
 */
export function toCallError(error: unknown, { isForOperator = false } = {}): ConnectError {
  if (error instanceof DomainError) {
    const { reason, field, outcome } = error;
    const unavailable = isForOperator && error instanceof StoreUnavailable ? error : undefined;
    const message = unavailable?.messageForOperators ?? error.message;
    return callError(Code[error.kind], message, {
      reason,
      violations: field === undefined ? [] : [{ field, description: message }],
      metadata: {
        ...(outcome && { outcome }),
        ...(unavailable?.fault && { cause: unavailable.fault }),
        ...(error instanceof UserGroupSuspended && { suspension_message: error.suspensionMessage }),
      },
      cause: error,
    });
  }
  if (error instanceof ConnectError) {
    if (error.findDetails(ErrorInfoSchema).length === 0) {
      addDetail(error, { reason: REASONS[error.code] ?? "INTERNAL" });
    }
    return error;
  }
  return callError(Code.Internal, "internal error", { reason: "INTERNAL", cause: error });
}
