import { ConfigError } from "./config/config.ts";
import { RecordUnreadable, StoreUnavailable, TooFewReplicas } from "./domain/errors.ts";
import { StoreMisconfigured } from "./store/misconfigured.ts";

/** Why the service does not start, for whoever started it. */
export function explainStartFailure(error: unknown): string {
  if (error instanceof ConfigError) return error.message;
  if (error instanceof StoreMisconfigured) return `cannot use Redis: ${error.message}`;
  if (error instanceof StoreUnavailable)
    return `cannot use Redis: ${(error.cause as Error)?.message}; check REDIS_URL and that Redis runs`;
  if (error instanceof TooFewReplicas)
    return "cannot use Redis: too few replicas confirm changes; check MIN_REPLICAS_ACK and the replicas of REDIS_URL";
  if (error instanceof RecordUnreadable) return `cannot use Redis: ${(error.cause as Error)?.message}`;
  if ((error as { syscall?: unknown })?.syscall === "listen")
    return `cannot listen: ${(error as Error).message}; check HOST and PORT`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
