import { Code, ConnectError } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type FailureDetails, failureDetails, requestIdOf } from "../../../client/src/failure.ts";
import { countText } from "../words.ts";

/** Why something failed, in words for a person. */
export interface Failure {
  readonly message: string;
  /** What to do. */
  readonly hint: string | undefined;
  /** What to do as well when the call was to change something; undefined when the hint says it. */
  readonly doubt?: string;
  /** Whether the service refused the token, so that another one is needed. Default: no. */
  readonly isTokenRefused?: boolean;
  /** Code and reason of the API; undefined: the service did not say them. */
  readonly kind: string | undefined;
  readonly requestId: string | undefined;
  /** What is wrong with which field of the request, by its name in the API. */
  readonly violations: FailureDetails["violations"];
}

/** Invalid input that the console itself found: the service was not asked. */
export class NotRight extends Error {}

/** What to do, by the reason of the service's error. */
const HINTS: { readonly [reason: string]: string } = {
  API_TOKEN_UNKNOWN: "Check that the whole token of this service was typed in, and that it was not revoked.",
  API_TOKEN_MALFORMED: "Check that the whole token was typed in, without anything else.",
  ROLE_TOO_LOW: "Sign in with a token of that role.",
  ENVIRONMENT_TOKEN_REQUIRED: "Sign in with an API token of role admin of this environment.",
  OTHER_ENVIRONMENT: "This token acts on its own environment alone.",
  USER_GROUP_NOT_FOUND: "It may have been deleted. The list of user groups shows those that there are.",
  ENVIRONMENT_NOT_FOUND: "It may have been deleted. The list of environments shows those that there are.",
  ENVIRONMENT_EXISTS: "Choose another name or tag.",
  API_TOKEN_NOT_FOUND: "It may have been revoked, or have expired. The list of API tokens shows those that there are.",
  ENVIRONMENT_NOT_EMPTY: "Choose to delete its user groups with it.",
  ENVIRONMENT_BEING_DELETED: "Delete it until it is gone; then it can be created anew.",
  ETAG_MISMATCH: "Somebody changed it meanwhile. Read it again, and make your change to what it is now.",
  API_TOKEN_CHANGED: "Somebody changed or rotated it meanwhile. Look, and try again.",
  API_TOKEN_OUTLIVES_CALLER: "Revoke it, or sign in with a token that lasts as long as it does.",
  TOO_MANY_API_TOKENS: "Revoke those that nobody uses.",
  TOO_FEW_REPLICAS: "It was done, but may be lost in a failover: look, and repeat it where it is missing.",
  RECORD_UNREADABLE: "Have its operator look at TOKEN_KEYS and the stored data.",
  INTERNAL: "Have its operator look for the request id in the log of the service.",
};

/** The reasons of errors that do not last: the service did nothing, and a later call may succeed. */
const LATER: ReadonlySet<string> = new Set(["OVERLOADED", "RATE_LIMITED", "TOO_MANY_FAILURES"]);

/** Describes an error. */
export function failureOf(error: unknown): Failure {
  if (error instanceof NotRight)
    return { message: error.message, hint: undefined, kind: undefined, requestId: undefined, violations: [] };
  const known = ConnectError.from(error);
  const details = failureDetails(known);
  const requestId = requestIdOf(known);
  if (!details) return { ...unanswered(known), kind: undefined, requestId, violations: [] };
  const { reason, outcome, violations } = details;
  const isLater = LATER.has(reason);
  return {
    message: known.rawMessage,
    hint: isLater ? laterHint(known) : (HINTS[reason] ?? hintOfOutcome(known.code, outcome)),
    isTokenRefused: known.code === Code.Unauthenticated,
    kind: `${codeToString(known.code)}, ${reason}`,
    requestId,
    violations,
  };
}

/** What to do about an error whose reason is in `LATER`. */
function laterHint(error: ConnectError): string {
  return `Nothing was done, and what you typed is still here. ${againText(error)}`;
}

/** When to try again, by the `Retry-After` of the answer. */
function againText({ metadata }: ConnectError): string {
  const seconds = metadata.get("retry-after") ?? "";
  return /^\d{1,6}$/.test(seconds) && seconds !== "0"
    ? `Try again in ${countText(Number(seconds), "second")}.`
    : "Try again in a while.";
}

/** What to do about errors whose reason has no entry in `HINTS`. */
function hintOfOutcome(code: Code, outcome: FailureDetails["outcome"]): string | undefined {
  if (code !== Code.Unavailable) return undefined;
  if (outcome === "not_made") return "Nothing was changed, and what you typed is still here. Try again.";
  if (outcome === "unknown") return "The change may have been made: look before you repeat it.";
  return "Try again.";
}

/** What to do about a change that was not answered. */
const DOUBT = "A change may have been made all the same: look before you repeat it. What you typed is still here.";

/** Describes a call that was not answered, or not by the service. */
function unanswered(error: ConnectError): Pick<Failure, "message" | "hint" | "doubt"> {
  const { code, rawMessage } = error;
  const doubt = DOUBT;
  if (code === Code.DeadlineExceeded)
    return { message: "The service did not answer in time.", hint: "Try again in a while.", doubt };
  if (code === Code.Canceled) return { message: "It was broken off.", hint: undefined, doubt };
  if (code === Code.Unimplemented)
    return {
      message: "The service does not have this call.",
      hint: "Another release may answer here now: copy what you typed, and load the page again.",
    };
  const [, status] = /^HTTP (\d{3})$/.exec(rawMessage) ?? [];
  if (status === "401" || status === "403")
    return {
      message: `Something before the service refused it, with HTTP ${status}: the service did not see it.`,
      hint: "A proxy may want a sign-in of its own: sign in there in another tab, then try again here.",
    };
  if (status !== undefined)
    return {
      message: `Something before the service answered in its place, with HTTP ${status}: the service may be overloaded, or begin anew.`,
      hint: againText(error),
      doubt,
    };
  // The words of the browser, for whoever looks into it.
  return {
    message: `The service could not be reached: ${rawMessage}.`,
    hint: "It may begin anew, or the way to it is cut: check that it runs, and try again in a while.",
    doubt,
  };
}
