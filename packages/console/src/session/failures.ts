import { Code, ConnectError } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type FailureDetails, failureDetails, requestIdOf } from "../../../client/src/failure.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { countText } from "../../../operator/src/words.ts";

/** The description of an error that the user sees. */
export interface Failure {
  readonly message: string;
  /** Advice for the user. */
  readonly hint: string | undefined;
  /**
   * Advice to check whether the failed call has changed data. Set only if the error is not from the service and the
   * call may have changed data.
   */
  readonly doubt?: string;
  /** Whether the service rejected the token. Default: no. */
  readonly isTokenRefused?: boolean;
  /** The status code and the error reason, in one text. Undefined if the error is not from the service. */
  readonly kind: string | undefined;
  readonly requestId: string | undefined;
  readonly violations: FailureDetails["violations"];
}

/** Advice for the user, by error reason. */
const HINTS: { readonly [reason: string]: string } = {
  API_TOKEN_UNKNOWN: "Check that you typed the whole token, that this service issued it, and that it was not revoked.",
  API_TOKEN_MALFORMED: "Check that you typed the whole token, and nothing else.",
  ROLE_TOO_LOW: "Sign in with a token of the required role.",
  ENVIRONMENT_TOKEN_REQUIRED: "Sign in with an API token of role admin of this environment.",
  OTHER_ENVIRONMENT: "This token may act on its own environment only.",
  USER_GROUP_NOT_FOUND: "The user group may have been deleted. See the list of user groups.",
  USER_GROUP_EXPIRED: "Edit the group: set a later expiry time, or clear the expiry time.",
  ENVIRONMENT_NOT_FOUND: "The environment may have been deleted. See the list of environments.",
  ENVIRONMENT_EXISTS: "Choose another name or tag.",
  API_TOKEN_NOT_FOUND: "The API token may have been revoked or have expired. See the list of API tokens.",
  WEBHOOK_NOT_FOUND: "The webhook may have been deleted. See the list of webhooks.",
  TOO_MANY_WEBHOOKS: "Delete webhooks that are no longer used.",
  ENVIRONMENT_NOT_EMPTY: "Select the option that also deletes the user groups of the environment.",
  ENVIRONMENT_BEING_DELETED: "Finish the deletion. Then you can create the environment again.",
  ETAG_MISMATCH: "Somebody else changed the user group in the meantime. Check the new values, then save again.",
  API_TOKEN_CHANGED:
    "API tokens of the environment were just revoked, maybe the token of this session. Try again in 5 seconds.",
  API_TOKEN_OUTLIVES_CALLER:
    "Revoke the API token, or sign in with a token that expires no earlier than the API token.",
  TOO_MANY_API_TOKENS: "Revoke API tokens that are no longer used.",
  TOO_FEW_REPLICAS:
    "The change was made, but a failover may lose it. Check after a failover, and repeat the change if it is missing.",
  RECORD_UNREADABLE: "Ask the operator of the service to check TOKEN_KEYS and the stored data.",
  INTERNAL: "Ask the operator of the service to find the request id in the log of the service.",
};

/** If a call fails with one of these reasons, the service has done nothing. The same call may succeed later. */
const LATER: ReadonlySet<string> = new Set(["OVERLOADED", "RATE_LIMITED", "TOO_MANY_FAILURES"]);

/** Describes an error for the user. */
export function failureOf(error: unknown): Failure {
  if (error instanceof InvalidInput)
    return { message: error.message, hint: undefined, kind: undefined, requestId: undefined, violations: [] };
  const known = ConnectError.from(error);
  const details = failureDetails(known);
  const requestId = requestIdOf(known);
  if (!details) return { ...unanswered(known), kind: undefined, requestId, violations: [] };
  const { reason, outcome, violations } = details;
  return {
    message: known.rawMessage,
    hint: LATER.has(reason)
      ? `Nothing was done, and your input is still here. ${againText(known)}`
      : (HINTS[reason] ?? hintOfOutcome(known.code, outcome)),
    isTokenRefused: known.code === Code.Unauthenticated,
    kind: `${codeToString(known.code)}, ${reason}`,
    requestId,
    violations,
  };
}

/** Advises when to try again, according to `Retry-After`. */
function againText({ metadata }: ConnectError): string {
  const seconds = metadata.get("retry-after") ?? "";
  return /^\d{1,6}$/.test(seconds) && seconds !== "0"
    ? `Try again in ${countText(Number(seconds), "second")}.`
    : "Try again later.";
}

/** Returns the hint for an error whose reason is not in `HINTS`. */
function hintOfOutcome(code: Code, outcome: FailureDetails["outcome"]): string | undefined {
  if (code !== Code.Unavailable) return undefined;
  if (outcome === "not_made") return "Nothing was changed, and your input is still here. Try again.";
  if (outcome === "unknown") return "The change may have been made: check before you repeat it.";
  return "Try again.";
}

/** Describes an error that did not come from the service, such as a network error or a response of a proxy. */
function unanswered(error: ConnectError): Pick<Failure, "message" | "hint" | "doubt"> {
  const { code, rawMessage } = error;
  const doubt = "The change may still have been made: check before you repeat it. Your input is still here.";
  if (code === Code.DeadlineExceeded)
    return { message: "The service did not answer in time.", hint: "Try again later.", doubt };
  if (code === Code.Canceled) return { message: "The call was canceled.", hint: undefined, doubt };
  if (code === Code.Unimplemented)
    return {
      message: "The service does not have this call.",
      hint: "The service may have been replaced by another release. Copy your input, then reload the page.",
    };
  const [, status] = /^HTTP (\d{3})$/.exec(rawMessage) ?? [];
  if (status === "401" || status === "403")
    return {
      message: `A proxy refused the call with HTTP ${status}. The service did not receive the call.`,
      hint: "The proxy may need its own sign-in: sign in to the proxy in another tab, then try again here.",
    };
  if (status !== undefined)
    return {
      message: `A proxy answered with HTTP ${status} instead of the service. The service may be overloaded or restarting.`,
      hint: againText(error),
      doubt,
    };
  // The error message of the browser can help the user to find the cause.
  return {
    message: `The service could not be reached: ${rawMessage}.`,
    hint: "The service may be restarting, or the network may be down. Check that the service is running, then try again later.",
    doubt,
  };
}
