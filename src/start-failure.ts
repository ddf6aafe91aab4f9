import { ConfigError } from "./config/config.ts";
import { RecordUnreadable, StoreUnavailable, TooFewReplicas } from "./domain/errors.ts";
import { RunNotAllowed } from "./permissions.ts";
import { StoreMisconfigured } from "./store/redis/answers.ts";
import { WorkersFailed } from "./supervisor.ts";
import { notifySupervisor, worker } from "./worker.ts";

/** Explains to an operator why the service does not start. */
export function explainStartFailure(error: unknown): string {
  if (error instanceof ConfigError || error instanceof RunNotAllowed || error instanceof WorkersFailed)
    return error.message;
  if (error instanceof StoreMisconfigured) return `cannot use Redis: ${error.message}`;
  if (error instanceof StoreUnavailable)
    return `cannot use Redis: ${(error.cause as Error)?.message}; check REDIS_URL and that Redis runs`;
  if (error instanceof TooFewReplicas)
    return "cannot use Redis: too few replicas confirm changes; check MIN_REPLICAS_ACK and the replicas of REDIS_URL";
  if (error instanceof RecordUnreadable)
    return `cannot use Redis: ${(error.cause as Error)?.message}; check that REDIS_URL names the Redis of this service, and what else writes to it`;
  const { syscall } = error as { syscall?: unknown };
  if (syscall === "listen" || syscall === "bind" || syscall === "getaddrinfo")
    return `cannot listen: ${(error as Error).message}; check HOST, PORT and METRICS_PORT`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Reports why the service does not start, and sets exit code 1. A worker reports to its supervisor. */
export function reportStartFailure(error: unknown): void {
  process.exitCode = 1;
  const reason = explainStartFailure(error);
  if (worker) notifySupervisor({ kind: "failed", reason });
  else console.error(reason);
}

/** Ends a process that serves, and can do so no longer, with exit code 1. */
export function endUnusable(error: Error): void {
  reportStartFailure(error);
  // As by a signal: what is under way is finished. Deno sends itself none without a permission.
  process.emit("SIGTERM", "SIGTERM");
}
