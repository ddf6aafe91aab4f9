import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import * as domain from "../domain/errors.ts";
import { type FieldViolation, violationsOfRefusal } from "./validation.ts";

/** Who defines the reasons of this service's errors: `google.rpc.ErrorInfo.domain`. */
export const ERROR_DOMAIN = "user-group-service";

/** What an error carries beside its code and message. */
export interface ErrorDetail {
  readonly reason: string;
  readonly violations?: readonly FieldViolation[];
  readonly cause?: unknown;
}

/** An error with a reason, and with the fields at fault, as `google.rpc` details. */
export function callError(code: Code, message: string, detail: ErrorDetail): ConnectError {
  const error = new ConnectError(message, code, undefined, undefined, detail.cause);
  addDetail(error, detail);
  return error;
}

/** Adds a reason, and the fields at fault, to an error. */
export function addDetail(error: ConnectError, { reason, violations = [] }: ErrorDetail): void {
  error.details.push({ desc: ErrorInfoSchema, value: { reason, domain: ERROR_DOMAIN } });
  if (violations.length > 0) {
    error.details.push({
      desc: BadRequestSchema,
      value: { fieldViolations: violations.map(({ field, description }) => ({ field, description })) },
    });
  }
}

/** The code of every error of the domain. */
function codeOf(error: domain.DomainError): Code {
  if (error instanceof domain.UserGroupNotFound) return Code.NotFound;
  if (error instanceof domain.TokenNotFound) return Code.NotFound;
  if (error instanceof domain.EtagMismatch) return Code.Aborted;
  if (error instanceof domain.RequestIdReused) return Code.InvalidArgument;
  if (error instanceof domain.InvalidUpdateMask) return Code.InvalidArgument;
  if (error instanceof domain.StoreUnavailable) return Code.Unavailable;
  if (error instanceof domain.TooFewReplicas) return Code.Unavailable;
  if (error instanceof domain.EnvironmentFull) return Code.ResourceExhausted;
  if (error instanceof domain.RecordUnreadable) return Code.DataLoss;
  return Code.Internal;
}

/** The field at fault of those errors of the domain that have one. */
function violationsOf(error: domain.DomainError): FieldViolation[] {
  if (error instanceof domain.RequestIdReused) return [{ field: "request_id", description: error.message }];
  if (error instanceof domain.InvalidUpdateMask) return [{ field: "update_mask", description: error.message }];
  return [];
}

/** Reasons of errors that come from the transport without one. */
const REASONS: Partial<Record<Code, string>> = {
  [Code.Canceled]: "CANCELED",
  [Code.InvalidArgument]: "INVALID_REQUEST",
  [Code.DeadlineExceeded]: "DEADLINE_EXCEEDED",
  [Code.ResourceExhausted]: "MESSAGE_TOO_LARGE",
  [Code.Unimplemented]: "UNIMPLEMENTED",
  [Code.Unavailable]: "UNAVAILABLE",
};

/** The reason of an error that was raised without one. */
export function reasonOfCode(code: Code): string {
  return REASONS[code] ?? "INTERNAL";
}

/** The refusal of the validator, in words of this service; protovalidate's own detail stays with it. */
function validationError({ details, cause }: ConnectError, violations: readonly FieldViolation[]): ConnectError {
  const message = violations.map(({ field, description }) => `${field}: ${description}`).join("; ");
  const error = new ConnectError(message, Code.InvalidArgument, undefined, undefined, cause);
  error.details = details;
  addDetail(error, { reason: "VALIDATION_FAILED", violations });
  return error;
}

/**
 * What a caller is told of a failure. What nobody foresaw is Internal with a
 * fixed text; it stays on `cause`, which is never sent.
 */
export function toCallError(error: unknown): ConnectError {
  if (error instanceof domain.DomainError) {
    return callError(codeOf(error), error.message, {
      reason: error.reason,
      violations: violationsOf(error),
      cause: error,
    });
  }
  if (error instanceof ConnectError) {
    if (error.findDetails(ErrorInfoSchema).length === 0) {
      const violations = violationsOfRefusal(error.cause);
      if (violations) return validationError(error, violations);
      addDetail(error, { reason: reasonOfCode(error.code) });
    }
    return error;
  }
  return callError(Code.Internal, "internal error", { reason: "INTERNAL", cause: error });
}
