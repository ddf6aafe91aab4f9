import { Code, ConnectError } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import {
  connectionFaultOf,
  type FailureDetails,
  failureDetails,
  requestIdOf,
  type TlsHints,
  wordsOfFault,
} from "@user-group-service/client";
import { REFUSALS } from "../../../operator/src/refusals.ts";
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
  [Code.OutOfRange]: EXIT.conflict,
  [Code.ResourceExhausted]: EXIT.unavailable,
  [Code.Unavailable]: EXIT.unavailable,
  [Code.DeadlineExceeded]: EXIT.unavailable,
};

const HINTS: { readonly [reason: string]: string } = {
  API_TOKEN_MISSING: "run: ugs login, or give --token-file FILE or UGS_TOKEN",
  API_TOKEN_UNKNOWN: "check that the token belongs to this service; to store another token, run: ugs login",
  API_TOKEN_MALFORMED: "check that the token was copied completely; to store another token, run: ugs login",
  ROLE_TOO_LOW:
    "give a token of the required role with --token-file or --profile; ugs whoami shows the role of the current token",
  OTHER_ENVIRONMENT: "remove --env: this token can use only its own environment",
  ENVIRONMENT_TOKEN_REQUIRED:
    "use an API token of an environment; to create one, run: ugs token create --env NAME --role manage --name TEXT",
  USER_GROUP_NOT_FOUND: "ugs group list shows the user groups; ugs whoami shows the environment of the token",
  USER_GROUP_SUSPENDED: "ugs group get ID shows the reason; to end the suspension, run: ugs group resume ID",
  USER_GROUP_EXPIRED: "run: ugs group update ID --expire-time WHEN, or --expire-time never",
  TOKEN_NOT_FOUND: "copy the token again, or find the user group with ugs group list",
  EVENT_CURSOR_EXPIRED: "start again with --from snapshot, or with --from beginning for all stored events",
  VIEWER_SESSION_EXPIRED: "ugs viewer session create creates a new session",
  VIEWER_SESSION_ENDED: "if the viewer may still see the group, ugs viewer session create creates a new session",
  VIEWER_SESSION_TOO_LARGE: "give fewer --property values, or shorter --claims",
  TOO_MANY_ENDED_VIEWERS: "remove --viewer to revoke the sessions of the whole group",
  PUBLIC_URL_MISSING: "ask the operator of the service to set PUBLIC_URL",
  SIGNING_KEYS_CHANGED: "ugs signing-key list shows the new keys; run the command again",
  ENVIRONMENT_NOT_FOUND: "ugs env list shows all environments",
  API_TOKEN_NOT_FOUND: "ugs token list shows all API tokens",
  ENVIRONMENT_NOT_EMPTY: "give --force to delete the user groups of the environment as well",
  ENVIRONMENT_BEING_DELETED:
    "run ugs env delete NAME --force to complete the deletion, then create the environment again",
  ETAG_MISMATCH: "ugs group get ID shows the current etag of the group",
  API_TOKEN_CHANGED:
    "API tokens of the environment were just revoked, maybe also the token of this command; try again in 5 seconds",
  API_TOKEN_OUTLIVES_CALLER:
    "use a token that expires no earlier than the API token to rotate, or revoke the API token to rotate",
  TOO_MANY_API_TOKENS: "revoke unused API tokens; ugs token list shows the last use of each token",
  WEBHOOK_NOT_FOUND: "ugs webhook list shows all webhooks",
  TOO_MANY_WEBHOOKS: "ugs webhook list shows all webhooks; delete unused webhooks",
  TOO_MANY_FAILURES: "too many calls from this address had no valid token: check the token before you try again",
  OVERLOADED: "try again later; nothing was done",
  RATE_LIMITED: "try again later; nothing was done",
  TOO_FEW_REPLICAS:
    "the change was made, but a failover may lose the change: after a failover, check the change, and repeat the change if it is missing",
  RECORD_UNREADABLE: "ask the operator of the service to check TOKEN_KEYS and the stored data",
  INTERNAL: "ask the operator of the service to find the request id in the log of the service",
};

interface CallOptions {
  readonly onlyReads: boolean;
  /** Whether a retry is safe even if the service has already executed the call. */
  readonly mayRepeat: boolean;
  /** The timeout of the call, in milliseconds. Default: the timeout of the connection, which `--timeout` sets. */
  readonly timeoutMs?: number | undefined;
}

/** Converts a `ConnectError` to a `Failure`. Returns any other error unchanged. */
export function callFailure(error: unknown, connection: Connection, options: CallOptions): unknown {
  if (!(error instanceof ConnectError)) return error;
  const details = failureDetails(error);
  return details ? answered(error, details, options) : unanswered(error, connection, options);
}

function answered(error: ConnectError, details: FailureDetails, options: CallOptions): Failure {
  const { reason, violations } = details;
  const outcome = outcomeOf(error.code, details, options);
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

/**
 * Returns the outcome of a failed change. If the service does not report the outcome, derives the outcome from the
 * error. Returns undefined if the call only reads, if the error does not show the outcome, or if the derived outcome is
 * unknown but a retry is safe.
 */
function outcomeOf(
  code: Code,
  { reason, outcome }: FailureDetails,
  { onlyReads, mayRepeat }: CallOptions,
): FailureDetails["outcome"] {
  if (onlyReads) return undefined;
  if (outcome !== undefined) return outcome;
  if (REFUSALS.has(reason)) return "not_made";
  const isUnknown = !mayRepeat && (code === Code.Internal || code === Code.DeadlineExceeded);
  return isUnknown ? "unknown" : undefined;
}

function hintOf(
  code: Code,
  { outcome, violations }: Pick<FailureDetails, "outcome" | "violations">,
): string | undefined {
  if (violations.some(({ field }) => field === "environment")) return "give --env NAME, NAME/Customer or NAME/Testing";
  if (code !== Code.Unavailable) return undefined;
  if (outcome === "not_made") return "nothing was changed; try again";
  if (outcome === "unknown") return "the change may have been made: check before you repeat it";
  return "try again";
}

function unanswered(error: ConnectError, connection: Connection, { mayRepeat, timeoutMs }: CallOptions): Failure {
  const { url } = connection;
  const where = urlText(connection);
  const unsent = { exitCode: EXIT.unavailable, cause: error };
  const sent = { ...unsent, requestId: requestIdOf(error), outcome: mayRepeat ? undefined : ("unknown" as const) };
  const found = unreachable(url, error, connection.unusedProxy);
  if (found) {
    const isReset = found.fault === "reset";
    // If a required client certificate is missing, the service may reset the connection before Node reads the
    // TLS alert.
    const hint =
      isReset && url.protocol === "https:" && connection.cert === undefined
        ? "try again; if the service requires a client certificate, give --cert-file FILE and --key-file FILE"
        : found.hint;
    return new Failure(found.message, { ...(isReset ? sent : unsent), hint });
  }
  if (error.code === Code.Canceled || error.cause instanceof Interrupted)
    return new Failure("interrupted", { exitCode: EXIT.failed, outcome: sent.outcome, cause: error });
  if (error.code === Code.DeadlineExceeded) {
    const hint = timeoutMs === undefined ? "give a longer --timeout" : "try again later";
    return new Failure(`${where} did not answer within ${timeoutMs ?? connection.timeoutMs} ms`, { ...sent, hint });
  }
  const isUnknown = error.code === Code.Unimplemented;
  const what = isUnknown
    ? "does not have this call"
    : `a proxy responded: ${error.rawMessage || codeToString(error.code)}`;
  const ifOlder = isUnknown ? "; if the service is older than this ugs, the service may lack this call" : "";
  return new Failure(`${where} is not the User Group Service, or ${what}`, {
    ...sent,
    outcome: OF_PROXIES.has(error.code) ? sent.outcome : undefined,
    hint: `check the URL, its path, and the proxies${ifOlder}`,
  });
}

/**
 * The Connect codes of the HTTP statuses 500, 502, 503 and 504. A proxy that returns one of these statuses may have
 * forwarded the call, so the outcome of the call is unknown.
 */
const OF_PROXIES: ReadonlySet<Code> = new Set([Code.Unavailable, Code.Unknown, Code.Internal]);

/**
 * Explains why `ugs` could not connect, or why the connection broke during a call. Returns undefined if the call failed
 * for another reason.
 *
 * @param unusedProxy see `unusedProxyOf`
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
      ? `${hint}; Node does not use the proxy of ${unusedProxy}: use Node 24.5 or newer with NODE_USE_ENV_PROXY=1`
      : hint,
  };
}

const TLS_HINTS: TlsHints = {
  otherName: "use the name in the certificate as the host of the URL, or give --server-name NAME",
  clientCertificate: "give --cert-file FILE and --key-file FILE, signed by a CA that the service trusts",
  authority: "give --ca-file FILE with the certificate of this CA, in PEM",
};
