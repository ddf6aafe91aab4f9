import { ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { REASONS, type Reason } from "../../../gen/reasons.ts";

/** The header with the request id, which the log of the service contains. */
export const REQUEST_ID_HEADER = "x-request-id";

/** `google.rpc.ErrorInfo.domain` of the service's errors. */
const ERROR_DOMAIN = "user-group-service";

/** Details of an error that the service returned. */
export interface FailureDetails {
  /** A stable constant. A newer service may return reasons that are not in `Reason`. */
  readonly reason: string;
  /** Whether the change was made. Undefined if the call changes nothing, or was refused. */
  readonly outcome: "not_made" | "unknown" | undefined;
  /** The message for the page of a suspended user group. It can be empty. Undefined for other errors. */
  readonly suspensionMessage: string | undefined;
  /** The invalid fields of the request, by their names in the proto files. */
  readonly violations: readonly { readonly field: string; readonly description: string }[];
}

/**
 * Returns the reason of an error, from the table of errors in docs/api.md. Undefined if the service did not return the
 * error, such as for a failed connection, or if this package does not know the reason: see `failureDetails`.
 */
export function reasonOf(error: unknown): Reason | undefined {
  const { reason } = failureDetails(error) ?? {};
  return (REASONS as readonly (string | undefined)[]).includes(reason) ? (reason as Reason) : undefined;
}

/** Returns the details of an error. Undefined if the service did not return the error. */
export function failureDetails(error: unknown): FailureDetails | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  const info = error.findDetails(ErrorInfoSchema).find(({ domain }) => domain === ERROR_DOMAIN);
  if (!info) return undefined;
  const outcome = info.metadata["outcome"];
  return {
    reason: info.reason,
    outcome: outcome === "not_made" || outcome === "unknown" ? outcome : undefined,
    suspensionMessage: info.reason === "USER_GROUP_SUSPENDED" ? (info.metadata["suspension_message"] ?? "") : undefined,
    violations: error
      .findDetails(BadRequestSchema)
      .flatMap(({ fieldViolations }) => fieldViolations)
      .map(({ field, description }) => ({ field, description })),
  };
}

/** Returns the request id of a failed call. Undefined if the error does not come from a call. */
export function requestIdOf(error: unknown): string | undefined {
  return error instanceof ConnectError ? (error.metadata.get(REQUEST_ID_HEADER) ?? undefined) : undefined;
}

/**
 * Returns the time to wait that the service or a proxy requests, in milliseconds. Undefined if neither requests a
 * pause.
 */
export function retryAfterMs(error: ConnectError): number | undefined {
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  if (delay) return Number(delay.seconds) * 1000 + delay.nanos / 1e6;
  const text = error.metadata.get("retry-after")?.trim();
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  // A proxy may write a date (RFC 9110, 10.2.3).
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : Math.max(0, time - Date.now());
}
