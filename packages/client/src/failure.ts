import { ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { REASONS, type Reason } from "./reasons.ts";

/** The header with the id of a request, by which the log of the service has it. */
export const REQUEST_ID_HEADER = "x-request-id";

/** `google.rpc.ErrorInfo.domain` of the service's errors. */
const ERROR_DOMAIN = "user-group-service";

/** The details of a call that the service refused or failed. */
export interface FailureDetails {
  /** A stable constant for programs. A service that is newer than this package may have reasons beside `Reason`. */
  readonly reason: string;
  /** What became of a change; undefined: nothing was to be changed, or it was refused. */
  readonly outcome: "not_made" | "unknown" | undefined;
  /** The fields of the request that are at fault, by their names in the proto files. */
  readonly violations: readonly { readonly field: string; readonly description: string }[];
}

/**
 * Why the service refused a call or failed it: `reason` of its table of errors, docs/api.md. Undefined when something else
 * than the service failed, such as the connection, or when this package does not know the reason: see `failureDetails`.
 */
export function reasonOf(error: unknown): Reason | undefined {
  const { reason } = failureDetails(error) ?? {};
  return (REASONS as readonly (string | undefined)[]).includes(reason) ? (reason as Reason) : undefined;
}

/** The details of a failed call; undefined when the error is not from the service. */
export function failureDetails(error: unknown): FailureDetails | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  const info = error.findDetails(ErrorInfoSchema).find(({ domain }) => domain === ERROR_DOMAIN);
  if (!info) return undefined;
  const outcome = info.metadata["outcome"];
  return {
    reason: info.reason,
    outcome: outcome === "not_made" || outcome === "unknown" ? outcome : undefined,
    violations: error
      .findDetails(BadRequestSchema)
      .flatMap(({ fieldViolations }) => fieldViolations)
      .map(({ field, description }) => ({ field, description })),
  };
}

/** The id of a failed call in the service's log; undefined when the error is not one of a call. */
export function requestIdOf(error: unknown): string | undefined {
  return error instanceof ConnectError ? (error.metadata.get(REQUEST_ID_HEADER) ?? undefined) : undefined;
}

/** How long the service, or a proxy before it, asks callers to wait, in milliseconds; undefined: it does not. */
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
