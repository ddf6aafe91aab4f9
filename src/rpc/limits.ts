import { Code, type ConnectError } from "@connectrpc/connect";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import type { FailureLimits, TokenLimits } from "../auth/caller-limits.ts";
import type { Limited } from "../domain/rate-limit.ts";
import { callError, untraced } from "./errors.ts";

/** What is limited, by the name that metrics and `RateLimit-Policy` have for it. */
export type LimitName = "api-token" | "address";

/** The limits on callers. */
export interface CallerLimits {
  /** Undefined: API tokens are not limited. */
  readonly tokens: TokenLimits | undefined;
  /** Undefined: failures of authentication are not limited. */
  readonly failures: FailureLimits | undefined;
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
  const error = refusal(name, limited, `${TEXTS[name].what}: ${max} are let pass in ${windowSeconds} s`);
  error.metadata.set("ratelimit", `"${name}";r=0;t=${secondsOf(limited)}`);
  return error;
}

/** The error of a call whose API token was not looked up: it may be good, so it is worth another try before the window ends. */
export function notLookedUpError(limited: Limited): ConnectError {
  const what = "this API token was not looked up, for too many of this address were invalid or are being looked up";
  const error = refusal("address", limited, what);
  // Without a time: when the limit has room again is not when to try again.
  error.metadata.set("ratelimit", `"address";r=0`);
  return error;
}

function refusal(name: LimitName, limited: Limited, what: string): ConnectError {
  const seconds = secondsOf(limited);
  const { max, windowSeconds } = limited.limit;
  const { reason } = TEXTS[name];
  const error = untraced(() => callError(Code.ResourceExhausted, `${what}; try again in ${seconds} s`, { reason }));
  error.details.push({ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(seconds), nanos: 0 } } });
  error.metadata.set("retry-after", String(seconds));
  error.metadata.set("ratelimit-policy", `"${name}";q=${max};w=${windowSeconds}`);
  return error;
}

/** Whole seconds, because `Retry-After` has no others; later rather than too early. */
function secondsOf({ retryAfterMs }: Limited): number {
  return Math.max(1, Math.ceil(retryAfterMs / 1000));
}
