import { Code, type ConnectError } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import {
  connectionFaultOf,
  type FailureDetails,
  failureDetails,
  requestIdOf,
  type TlsHints,
  wordsOfFault,
} from "@user-group-service/client";
import { EXIT, Failure } from "../failures.ts";
import { type Connection, urlText } from "../settings.ts";
import { Interrupted } from "../shell.ts";

const EXIT_OF_CODE: { readonly [code in Code]?: number } = {
  [Code.InvalidArgument]: EXIT.usage,
  [Code.NotFound]: EXIT.notFound,
  [Code.Unauthenticated]: EXIT.denied,
  [Code.PermissionDenied]: EXIT.denied,
  [Code.AlreadyExists]: EXIT.conflict,
  [Code.Aborted]: EXIT.conflict,
  [Code.FailedPrecondition]: EXIT.conflict,
  [Code.ResourceExhausted]: EXIT.unavailable,
  [Code.Unavailable]: EXIT.unavailable,
  [Code.DeadlineExceeded]: EXIT.unavailable,
};

/** What to do, by the reason of the service's error. docs/api.md says it for callers of the API. */
const HINTS: { readonly [reason: string]: string } = {
  API_TOKEN_MISSING: "run: ugs login, or give --token-file FILE or UGS_TOKEN",
  API_TOKEN_UNKNOWN: "check that it is a token of this service; to keep another one, run: ugs login",
  API_TOKEN_MALFORMED: "check that the token was copied whole; to keep another one, run: ugs login",
  ROLE_TOO_LOW: "use a token of that role, by --token-file or --profile; ugs whoami tells the role of this one",
  OTHER_ENVIRONMENT: "leave --env out: this token acts on its own environment alone",
  ENVIRONMENT_TOKEN_REQUIRED:
    "use an API token of an environment: ugs token create --env NAME --role manage --name TEXT makes one",
  USER_GROUP_NOT_FOUND: "ugs group list shows those that there are; ugs whoami tells which environment this is",
  TOKEN_NOT_FOUND: "where the group is known, name it by its id",
  VIEWER_SESSION_EXPIRED: "ugs viewer session create makes another one",
  VIEWER_SESSION_ENDED: "ugs viewer session create makes another one, if the viewer may still see the group",
  VIEWER_SESSION_TOO_LARGE: "name fewer --property, or shorten --claims",
  TOO_MANY_ENDED_VIEWERS: "leave --viewer out, which ends the sessions of the whole group",
  PUBLIC_URL_MISSING: "have its operator set PUBLIC_URL",
  SIGNING_KEYS_CHANGED: "ugs signing-key list shows them; run it again",
  ENVIRONMENT_NOT_FOUND: "ugs env list shows those that there are",
  API_TOKEN_NOT_FOUND: "ugs token list shows those that there are",
  ENVIRONMENT_NOT_EMPTY: "give --force to delete its user groups with it",
  ENVIRONMENT_BEING_DELETED: "run: ugs env delete NAME --force until it is gone, then create it anew",
  ETAG_MISMATCH: "ugs group get ID shows its present etag",
  API_TOKEN_CHANGED: "the API token that you use was revoked at the same time; use another one",
  API_TOKEN_OUTLIVES_CALLER: "revoke it, or rotate it with a token that lasts as long as it does",
  TOO_MANY_API_TOKENS: "revoke those that nobody uses: ugs token list tells when each was used last",
  TOO_MANY_FAILURES: "check the token before you go on: too many calls from this address had none that is valid",
  OVERLOADED: "try again later; nothing was done",
  RATE_LIMITED: "try again later; nothing was done",
  TOO_FEW_REPLICAS: "the change was made, but may be lost in a failover: look, and repeat it where it is missing",
  RECORD_UNREADABLE: "have its operator look at TOKEN_KEYS and the stored data",
  INTERNAL: "have its operator look for the request id in the log of the service",
};

/**
 * The failure of a call, in words for the user.
 *
 * @param connection how the service was to be reached
 * @param options `mayRepeat`: whether the call may be made again even if it was carried out
 */
export function callFailure(
  error: ConnectError,
  connection: Connection,
  { mayRepeat = false }: { readonly mayRepeat?: boolean } = {},
): Failure {
  const details = failureDetails(error);
  return details ? answered(error, details) : unanswered(error, connection, mayRepeat ? undefined : "unknown");
}

/** The failure that the service answered. */
function answered(error: ConnectError, { reason, outcome, violations }: FailureDetails): Failure {
  return new Failure(error.rawMessage, {
    exitCode: EXIT_OF_CODE[error.code] ?? EXIT.failed,
    hint: HINTS[reason] ?? hintOf(error.code, { outcome, violations }),
    code: codeToString(error.code),
    reason,
    requestId: requestIdOf(error),
    outcome,
    violations,
    cause: error,
  });
}

/** What to do about errors whose reason has no entry in `HINTS`. */
function hintOf(code: Code, { outcome, violations }: Omit<FailureDetails, "reason">): string | undefined {
  if (violations.some(({ field }) => field === "environment")) return "give --env NAME, NAME/Customer or NAME/Testing";
  if (code !== Code.Unavailable) return undefined;
  if (outcome === "not_made") return "nothing was changed; try again";
  if (outcome === "unknown") return "the change may have been made: look before you repeat it";
  return "try again";
}

/**
 * The failure of a call that the service did not answer. @param outcome of a change that may have reached the service
 */
function unanswered(error: ConnectError, connection: Connection, outcome: "unknown" | undefined): Failure {
  const { url, timeoutMs } = connection;
  const where = urlText(connection);
  const requestId = requestIdOf(error);
  const found = unreachable(url, error, connection.unusedProxy);
  if (found) {
    const isLate = found.fault === "reset";
    return new Failure(found.message, {
      exitCode: EXIT.unavailable,
      hint: found.hint,
      ...(isLate && { requestId, outcome }),
      cause: error,
    });
  }
  // The run is ending.
  if (error.code === Code.Canceled || error.cause instanceof Interrupted)
    return new Failure("interrupted", { exitCode: EXIT.failed, outcome, cause: error });
  if (error.code === Code.DeadlineExceeded)
    return new Failure(`${where} did not answer within ${timeoutMs} ms`, {
      exitCode: EXIT.unavailable,
      hint: "--timeout waits longer",
      requestId,
      outcome,
      cause: error,
    });
  const isUnknown = error.code === Code.Unimplemented;
  const what = isUnknown ? "does not have this call" : error.rawMessage || codeToString(error.code);
  return new Failure(`${where} is not the User Group Service, or something before it answered: ${what}`, {
    exitCode: EXIT.unavailable,
    hint: `check the URL, its path included, and what proxies there are${isUnknown ? "; a service that is older than this ugs lacks the newest calls" : ""}`,
    requestId,
    ...(OF_PROXIES.has(error.code) && { outcome }),
    cause: error,
  });
}

/** The codes of what proxies answer that may have passed the call on: HTTP 500, 502, 503 and 504. */
const OF_PROXIES: ReadonlySet<Code> = new Set([Code.Unavailable, Code.Unknown, Code.Internal]);

/**
 * Why a URL cannot be reached, and what to do; undefined when the connection was not at fault.
 *
 * @param unusedProxy the variable with a proxy that Node does not use
 */
export function unreachable(url: URL, error: unknown, unusedProxy: string | undefined) {
  const found = connectionFaultOf(error);
  if (!found) return undefined;
  const [words, hint] = wordsOfFault(found, { url, hints: TLS_HINTS });
  const mayNeedProxy = unusedProxy !== undefined && /^(refused|unknown-host|unreachable)$/.test(found.fault);
  return {
    fault: found.fault,
    message: `cannot reach ${urlText({ url })}: ${words}`,
    hint: mayNeedProxy
      ? `${hint}; the proxy of ${unusedProxy} is not used: Node 24.5 or newer does with NODE_USE_ENV_PROXY=1`
      : hint,
  };
}

/** What to do about faults of TLS. */
const TLS_HINTS: TlsHints = {
  otherName: "use the name that it is for in the URL, or give --server-name NAME",
  clientCertificate: "give --cert-file FILE and --key-file FILE, of an authority that it trusts",
  authority: "give --ca-file FILE with that authority in PEM",
};
