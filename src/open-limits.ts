import { RateLimits } from "./auth/rate-limits.ts";
import type { Config } from "./config/config.ts";
import type { RateLimit } from "./domain/rate-limit.ts";
import type { Metrics } from "./observability/metrics.ts";
import type { CallerLimits, LimitName } from "./rpc/limits.ts";
import type { StoreClient } from "./store/client.ts";
import { rateCounter } from "./store/rate-counter.ts";

/**
 * Opens the limits on callers that are set.
 *
 * @param client undefined for the embedded store
 */
export function openLimits(
  { rateLimit, authFailureLimit }: Config,
  { client, metrics }: { client: StoreClient | undefined; metrics: Metrics },
): CallerLimits {
  const limitsOf = (kind: LimitName, limit: RateLimit) =>
    new RateLimits({ limit, counter: rateCounter(client, { kind, limit }) });
  const count = { "api-token": metrics.limited("api-token"), address: metrics.limited("address") };
  return {
    tokens: rateLimit && limitsOf("api-token", rateLimit),
    failures: authFailureLimit && limitsOf("address", authFailureLimit),
    onLimited: (name) => count[name](),
  };
}
