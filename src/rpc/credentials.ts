import { Code, type ConnectError } from "@connectrpc/connect";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import type { ApiTokens } from "../auth/api-tokens.ts";
import type { Authenticated, Principal } from "../auth/principal.ts";
import type { RateLimits } from "../auth/rate-limits.ts";
import { clientKey, type Network, type Origin } from "../domain/client-address.ts";
import type { Limited } from "../domain/store.ts";
import { REDACTED, TOKEN_IN_TEXT } from "../observability/log.ts";
import type { LimitName } from "../observability/metrics.ts";
import { callError, untraced } from "./errors.ts";

const SCHEME = /^(?:token|bearer) +([\x21-\x7e]+) *$/i;

/** The headers that may carry the API token. The first one present is used. */
export const CREDENTIAL_HEADERS = ["authorization", "explo-authorization"] as const;

/**
 * Parses the API token of an `Authorization` header: `Token TOKEN` or `Bearer TOKEN`; undefined when the header has
 * neither form.
 */
function tokenFromHeader(value: string): string | undefined {
  return SCHEME.exec(value)?.[1];
}

/** What is known of a caller before it is authenticated. */
export interface Caller {
  readonly header: Headers;
  /** The address of its connection; empty when it is not known. Default: not known. */
  readonly peerAddress?: () => string;
}

/** How callers are authenticated. */
export interface Authentication {
  readonly authenticator: Pick<ApiTokens, "authenticate">;
  readonly limits: CallerLimits;
  /** Whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly Network[];
}

/**
 * Authenticates the API token in the headers, at once when that need not wait. Throws ConnectError Unauthenticated, whose
 * message says what to do, or ResourceExhausted when the caller's address has failed too often; rejects with these, or
 * with the store's failure.
 */
export function authenticate(authentication: Authentication, caller: Caller): Principal | Promise<Principal> {
  const { header } = caller;
  const value = header.get(CREDENTIAL_HEADERS[0]) ?? header.get(CREDENTIAL_HEADERS[1]);
  if (value === null) throw denied("API_TOKEN_MISSING", authentication, caller);
  const token = tokenFromHeader(value);
  if (token === undefined) throw denied("API_TOKEN_MALFORMED", authentication, caller);
  const found = authentication.authenticator.authenticate(token);
  return found instanceof Promise
    ? found.then((principal) => requireKnown(principal, authentication, caller))
    : requireKnown(found, authentication, caller);
}

function requireKnown(found: Authenticated, authentication: Authentication, caller: Caller): Principal {
  if (found === undefined) throw denied("API_TOKEN_UNKNOWN", authentication, caller);
  return found;
}

/** What is wrong with the credentials of a call, by its reason. */
const FAULTS = {
  API_TOKEN_MISSING: "the header is missing: Authorization: Token API_TOKEN",
  API_TOKEN_MALFORMED: "the Authorization header must be: Token API_TOKEN",
  API_TOKEN_UNKNOWN: "the API token is unknown, revoked or expired; check that it was copied whole",
};

/**
 * The error for a caller without a valid API token: it is counted, and told of the limit once it has reached it. Every
 * token that may be good is looked up: only then is it known whether to refuse it, and callers behind one address must not
 * be locked out by the guesses of one of them.
 */
function denied(
  reason: keyof typeof FAULTS,
  { limits: { failures, onLimited }, trustedProxies }: Authentication,
  caller: Caller,
): ConnectError {
  const limited = failures?.take(clientKey(originOf(caller), trustedProxies));
  if (limited) {
    onLimited("address");
    return limitedError("address", limited);
  }
  const error = callError(Code.Unauthenticated, FAULTS[reason], { reason });
  error.metadata.set("www-authenticate", 'Token realm="user-group-service"');
  return error;
}

/** Redacts tokens of this service, and the API token of the headers in any form, from a text that a caller sent. */
export function withoutTokens(text: string, header: Headers): string {
  const redacted = text.replace(TOKEN_IN_TEXT, REDACTED);
  for (const name of CREDENTIAL_HEADERS) {
    const token = tokenFromHeader(header.get(name) ?? "");
    if (token !== undefined && redacted.includes(token)) return redacted.replaceAll(token, REDACTED);
  }
  return redacted;
}

/** Where a call comes from, as far as it is known. */
export function originOf(caller: Caller): Origin {
  return { peer: caller.peerAddress?.() ?? "", forwardedFor: caller.header.get("x-forwarded-for") };
}

/** The limits on callers. */
export interface CallerLimits {
  /** Limits calls by the environment and id of their API token; undefined: they are not limited. */
  readonly tokens: RateLimits | undefined;
  /**
   * Limits failures of authentication by the client's address, which many callers may share: only calls that fail are
   * refused. Undefined: they are not limited.
   */
  readonly failures: RateLimits | undefined;
  /** Called with every refusal. */
  readonly onLimited: (name: LimitName) => void;
}

/** The headers of a refusal by a limit (draft-ietf-httpapi-ratelimit-headers), beside `Retry-After`. */
export const LIMIT_HEADERS = ["ratelimit", "ratelimit-policy"] as const;

const TEXTS: { readonly [name in LimitName]: { readonly reason: string; readonly what: string } } = {
  "api-token": { reason: "RATE_LIMITED", what: "this API token has made too many calls" },
  address: {
    reason: "TOO_MANY_FAILURES",
    what: "too many calls from this address had no valid API token",
  },
};

/** The error of a call that a limit refuses: when to try again, for programs and for proxies. */
export function limitedError(name: LimitName, limited: Limited): ConnectError {
  const { max, windowSeconds } = limited.limit;
  // Whole seconds, because `Retry-After` has no others; later rather than too early.
  const seconds = Math.max(1, Math.ceil(limited.retryAfterMs / 1000));
  const { reason, what } = TEXTS[name];
  const message = `${what}: ${max} are let pass in ${windowSeconds} s; try again in ${seconds} s`;
  const error = untraced(() => callError(Code.ResourceExhausted, message, { reason }));
  error.details.push({ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(seconds), nanos: 0 } } });
  error.metadata.set("retry-after", String(seconds));
  error.metadata.set("ratelimit", `"${name}";r=0;t=${seconds}`);
  error.metadata.set("ratelimit-policy", `"${name}";q=${max};w=${windowSeconds}`);
  return error;
}
