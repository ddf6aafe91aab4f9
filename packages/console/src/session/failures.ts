import { Code, ConnectError } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type FailureDetails, failureDetails, requestIdOf } from "../../../client/src/failure.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { REFUSALS } from "../../../operator/src/refusals.ts";
import { countText } from "../../../operator/src/words.ts";

/** The description of an error that the user sees. */
export interface Failure {
  readonly message: string;
  /** Advice for the user. */
  readonly hint: string | undefined;
  /** Advice to check whether the failed call has changed data. Undefined if such a check is not necessary. */
  readonly doubt?: string | undefined;
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
  OTHER_ENVIRONMENT: "This token gives access only to its own environment.",
  USER_GROUP_NOT_FOUND: "The user group may have been deleted. See the list of user groups.",
  USER_GROUP_EXPIRED: "Edit the group: set a later expiry time, or clear the expiry time.",
  ENVIRONMENT_NOT_FOUND: "The environment may have been deleted. See the list of environments.",
  ENVIRONMENT_EXISTS: "Choose another name or tag.",
  API_TOKEN_NOT_FOUND: "The API token may have been revoked or have expired. See the list of API tokens.",
  WEBHOOK_NOT_FOUND: "The webhook may have been deleted. See the list of webhooks.",
  TOO_MANY_WEBHOOKS: "Delete webhooks that are no longer used.",
  ENVIRONMENT_NOT_EMPTY: "Select the option that also deletes the user groups of the environment.",
  ENVIRONMENT_BEING_DELETED: "Delete the environment again to complete its deletion. Then create the environment.",
  ETAG_MISMATCH: "Somebody else changed the user group in the meantime. Check the new values, then save again.",
  API_TOKEN_CHANGED:
    "API tokens of the environment were just revoked, maybe also the token that you signed in with. Try again in 5 seconds.",
  API_TOKEN_OUTLIVES_CALLER: "Revoke the API token, or sign in with a token that does not expire before the API token.",
  TOO_MANY_API_TOKENS: "Revoke API tokens that are no longer used.",
  TOO_FEW_REPLICAS:
    "The change was made, but a failover may lose the change. If the change is missing after a failover, repeat the change.",
  RECORD_UNREADABLE: "Ask the operator of the service to check TOKEN_KEYS and the stored data.",
  INTERNAL: "Ask the operator of the service to find the request id in the log of the service.",
};

const DOUBT =
  "The change may have been made. Before you repeat the change, check whether it was made. Your input is still here.";

/**
 * Describes an error for the user.
 *
 * @param options `isRead`: whether the failed call only reads data. Default: false
 */
export function failureOf(error: unknown, { isRead = false } = {}): Failure {
  if (error instanceof InvalidInput)
    return { message: error.message, hint: undefined, kind: undefined, requestId: undefined, violations: [] };
  const known = ConnectError.from(error);
  const details = failureDetails(known);
  const requestId = requestIdOf(known);
  if (!details) {
    const { mayBeMade = false, ...texts } = unanswered(known);
    return { ...texts, doubt: mayBeMade && !isRead ? DOUBT : undefined, kind: undefined, requestId, violations: [] };
  }
  const { reason, violations } = details;
  const unchanged = isRead ? "" : "Nothing was changed, and your input is still here. ";
  return {
    message: known.rawMessage,
    hint: REFUSALS.has(reason)
      ? `${unchanged}${againText(known)}`
      : (HINTS[reason] ?? hintOf(known, details, unchanged)),
    doubt: !isRead && isOutcomeUnknown(known, details) ? DOUBT : undefined,
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

/**
 * Returns the hint for a reason that is not in `HINTS`.
 *
 * @param unchanged a text that says that nothing was changed. If this is certain, the hint starts with this text
 */
function hintOf({ code }: ConnectError, { outcome }: FailureDetails, unchanged: string): string | undefined {
  if (code !== Code.Unavailable || outcome === "unknown") return undefined;
  return outcome === "not_made" ? `${unchanged}Try again.` : "Try again.";
}

/** Returns whether a change may have been made although the service returned an error. */
function isOutcomeUnknown({ code }: ConnectError, { reason, outcome }: FailureDetails): boolean {
  // This reason means that the change was made. `HINTS` contains the advice.
  if (reason === "TOO_FEW_REPLICAS") return false;
  return outcome === "unknown" || reason === "DEADLINE_EXCEEDED" || code === Code.Internal || code === Code.Unknown;
}

/**
 * Describes an error that did not come from the service, such as a network error or a response of a proxy. `mayBeMade`
 * is true if the service may have received the call.
 */
function unanswered(error: ConnectError): Pick<Failure, "message" | "hint"> & { readonly mayBeMade?: boolean } {
  const { code, rawMessage } = error;
  if (code === Code.DeadlineExceeded)
    return { message: "The service did not answer in time.", hint: "Try again later.", mayBeMade: true };
  if (code === Code.Canceled) return { message: "The call was canceled.", hint: undefined, mayBeMade: true };
  if (code === Code.Unimplemented)
    return {
      message: "The service does not have this call.",
      hint: "The page and the service may have different releases. Copy your input, then reload the page.",
    };
  const [, status] = /^HTTP (\d{3})$/.exec(rawMessage) ?? [];
  if (status === "401" || status === "403")
    return {
      message: `A proxy refused the call with HTTP ${status}. The service did not receive the call.`,
      hint: "The proxy may require its own sign-in. In another tab, sign in to the proxy. Then try again here.",
    };
  if (status !== undefined)
    return {
      message: `A proxy answered with HTTP ${status}. The service may be overloaded or restarting.`,
      hint: againText(error),
      mayBeMade: true,
    };
  // The error message of the browser can help the user to find the cause.
  return {
    message: `The service could not be reached: ${rawMessage}.`,
    hint: "The service may be restarting, or the network may be down. Check that the service is running, then try again later.",
    mayBeMade: true,
  };
}
