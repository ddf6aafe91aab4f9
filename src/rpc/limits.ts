import { Code, type ConnectError } from "@connectrpc/connect";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import type { RateLimits } from "../auth/rate-limits.ts";
import type { Limited } from "../domain/store.ts";
import { callError, untraced } from "./errors.ts";

/** What is limited, by the name that metrics and `RateLimit-Policy` have for it. */
export type LimitName = "api-token" | "address";

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
