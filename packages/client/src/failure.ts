import { ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { REASONS, type Reason } from "../../../gen/reasons.ts";

/** The header that contains the request id of a call. The service logs this id. */
export const REQUEST_ID_HEADER = "x-request-id";

/** The `domain` in each `google.rpc.ErrorInfo` of the service. An error with another domain comes from a proxy. */
const ERROR_DOMAIN = "user-group-service";

/** Details of an error that the service returned. */
export interface FailureDetails {
  /**
   * The reason, a stable constant. A service that is newer than this client can return a reason that `Reason` does not
   * contain.
   */
  readonly reason: string;
  /**
   * `not_made`: the service did not make the requested change. `unknown`: the service may have made the change.
   * Undefined if the method changes nothing, or if the service refused the call.
   */
  readonly outcome: "not_made" | "unknown" | undefined;
  /**
   * The message for the page of a suspended user group. The message can be empty. Undefined if the reason is not
   * `USER_GROUP_SUSPENDED`.
   */
  readonly suspensionMessage: string | undefined;
  /** The invalid fields of the request. `field` is the name of the field in the proto file. */
  readonly violations: readonly { readonly field: string; readonly description: string }[];
}

/**
 * Returns the reason of an error. docs/api.md lists the reasons. Returns undefined if the service did not return the
 * error, for example if the connection failed. A service that is newer than this client can return a reason that
 * `Reason` does not contain. In this case, `reasonOf` returns undefined, and `failureDetails` returns the reason.
 */
export function reasonOf(error: unknown): Reason | undefined {
  const { reason } = failureDetails(error) ?? {};
  return (REASONS as readonly (string | undefined)[]).includes(reason) ? (reason as Reason) : undefined;
}

/** Returns the details of an error, or undefined if the service did not return the error. */
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

/** Returns the request id of a failed call, or undefined if the error does not come from a call. */
export function requestIdOf(error: unknown): string | undefined {
  return error instanceof ConnectError ? (error.metadata.get(REQUEST_ID_HEADER) ?? undefined) : undefined;
}

/**
 * Returns the pause that the service or a proxy requests, in milliseconds. Returns undefined if the error requests no
 * pause.
 */
export function retryAfterMs(error: ConnectError): number | undefined {
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  if (delay) return Number(delay.seconds) * 1000 + delay.nanos / 1e6;
  const text = error.metadata.get("retry-after")?.trim();
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  // A proxy may send a date (RFC 9110, 10.2.3).
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : Math.max(0, time - Date.now());
}
