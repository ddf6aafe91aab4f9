import timers from "node:timers/promises";
import type { DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { connectionFaultOf, isNeverSent } from "./connection-faults.ts";
import { failureDetails, retryAfterMs } from "./failure.ts";

/** Maximum pause after the first failure, in milliseconds. The maximum doubles after each further failure. */
const FIRST_PAUSE_MS = 250;
/** The maximum pause does not grow beyond this limit, in milliseconds. */
const MAX_BACKOFF_MS = 2000;

/** The time during which the client repeats a call that has no deadline, in milliseconds. */
const DEFAULT_PATIENCE_MS = 10_000;

/** The header with the remaining time of a call, in milliseconds (Connect protocol). */
const TIMEOUT_HEADER = "connect-timeout-ms";

/**
 * Returns whether each call of a method is safe to repeat, even if the service has already executed the call. The
 * `idempotency_level` of the method in the proto file determines the result. The result does not depend on the request.
 * If a request contains a `requestId`, the call is safe to repeat even if the result is false.
 */
export function isRepeatable({ idempotency }: DescMethod): boolean {
  return idempotency !== MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
}

/** Options of `retrying`. */
export interface RetryOptions {
  /**
   * Maximum number of attempts. By default, only the deadline of the call limits the attempts, so that a call can
   * succeed after the service has restarted.
   */
  readonly maxTries?: number;
}

/**
 * Returns an interceptor that repeats a call after a temporary failure, until the deadline of the call. The interceptor
 * repeats a call only if the call is safe to repeat, or if the service has not executed the call. The pause between two
 * attempts grows to at most two seconds. If the service requests a pause, the interceptor adds the requested pause to
 * its own pause.
 *
 * If all attempts fail, the interceptor usually throws the error of the last attempt. But if this error reports that
 * nothing was changed, and the service may have executed an earlier attempt, the interceptor throws the error of that
 * earlier attempt.
 */
export function retrying({ maxTries = Number.POSITIVE_INFINITY }: RetryOptions = {}): Interceptor {
  return (next) => async (request) => {
    if (request.stream) return next(request);
    const { requestId = "" } = request.message as { requestId?: string };
    const mayRepeat = isRepeatable(request.method) || requestId !== "";
    const timeout = request.header.get(TIMEOUT_HEADER);
    const endsAt = performance.now() + Number(timeout ?? DEFAULT_PATIENCE_MS);
    /** The error of the last attempt that the service may have executed. */
    let uncertain: ConnectError | undefined;
    for (let tries = 1; ; tries++) {
      try {
        return await next(request);
      } catch (error) {
        if (!(error instanceof ConnectError)) throw error;
        const pauseMs = pauseAfter(error, mayRepeat, tries);
        if (pauseMs === undefined) throw error;
        if (mayBeExecuted(error)) uncertain = error;
        const failure = isRefused(error) ? (uncertain ?? error) : error;
        if (tries >= maxTries || request.signal.aborted) throw failure;
        // If no time remains for another attempt, do not wait for the deadline. The error of an attempt contains more
        // information than the error "deadline exceeded".
        const leftMs = endsAt - performance.now() - pauseMs;
        if (leftMs < 1) throw failure;
        await timers.setTimeout(pauseMs, undefined, { signal: request.signal }).catch(() => {
          throw failure;
        });
        if (timeout !== null) request.header.set(TIMEOUT_HEADER, String(Math.floor(leftMs)));
      }
    }
  };
}

/** Returns whether the service may have executed a call that failed with this temporary error. */
function mayBeExecuted(error: ConnectError): boolean {
  const details = failureDetails(error);
  if (details) return details.outcome === "unknown";
  return error.code !== Code.ResourceExhausted && !isNeverSent(error);
}

/** Returns whether a temporary error reports that nothing was changed. */
function isRefused(error: ConnectError): boolean {
  return error.code === Code.ResourceExhausted || failureDetails(error)?.outcome === "not_made";
}

/** Returns the pause before the next attempt, in milliseconds. Returns undefined if the call must not be repeated. */
function pauseAfter(error: ConnectError, mayRepeat: boolean, tries: number): number | undefined {
  const pauseMs = pauseBeforeRetry(error, tries - 1, MAX_BACKOFF_MS);
  const details = failureDetails(error);
  if (!details && isNeverSent(error)) return pauseMs;
  // The connection broke before the response arrived.
  if (!details && connectionFaultOf(error)?.fault === "reset") return mayRepeat ? pauseMs : undefined;
  switch (error.code) {
    case Code.ResourceExhausted:
      // If the server requests a pause, the server has not executed the call. If the server requests no pause, the
      // caller has reached a lasting limit, such as the maximum number of API tokens. A retry would fail as well.
      return retryAfterMs(error) === undefined ? undefined : pauseMs;
    case Code.Unavailable:
      return mayRepeat || details?.outcome === "not_made" ? pauseMs : undefined;
    case Code.Aborted:
      // connect-node reports a broken connection with this code.
      return mayRepeat && !details ? pauseMs : undefined;
    default:
      return undefined;
  }
}

/**
 * Returns the pause after a temporary failure, in milliseconds. The result is the sum of two pauses: the pause that the
 * error requests, and a pause that grows with the number of earlier failures.
 *
 * @param maxMs the maximum of the growing pause, in milliseconds
 */
export function pauseBeforeRetry(error: ConnectError, earlierFailures: number, maxMs: number): number {
  // Half of the pause is random, so that clients do not retry at the same time.
  const halfMs = Math.min(FIRST_PAUSE_MS * 2 ** earlierFailures, maxMs) / 2;
  return (retryAfterMs(error) ?? 0) + halfMs * (1 + Math.random());
}
