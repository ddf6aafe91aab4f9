import timers from "node:timers/promises";
import type { DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { connectionFaultOf, isNeverSent } from "./connection-faults.ts";
import { failureDetails, retryAfterMs } from "./failure.ts";

/** The longest pause before the second try, in milliseconds. It doubles with each further try, up to a maximum. */
const FIRST_PAUSE_MS = 250;
const MAX_BACKOFF_MS = 2000;

/** How long a call without a deadline is tried, in milliseconds. */
const DEFAULT_PATIENCE_MS = 10_000;

/** The header with the time that is left for a call, in milliseconds (the Connect protocol). */
const TIMEOUT_HEADER = "connect-timeout-ms";

/**
 * Whether a method may be called again with the same message even if the first call was carried out: the second call
 * changes nothing, or nothing more. Its `idempotency_level` in the proto says so. A call with a request id may always be
 * repeated.
 */
export function isRepeatable({ idempotency }: DescMethod): boolean {
  return idempotency !== MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
}

/** How long calls are tried again. */
export interface RetryOptions {
  /** Default: any number of tries until the deadline, so that a call outlasts a restart of the service. */
  readonly maxTries?: number;
}

/** Tries a call again if that is safe, within its deadline, with pauses that grow up to two seconds. */
export function retrying({ maxTries = Number.POSITIVE_INFINITY }: RetryOptions = {}): Interceptor {
  return (next) => async (request) => {
    if (request.stream) return next(request);
    const { requestId = "" } = request.message as { requestId?: string };
    const mayRepeat = isRepeatable(request.method) || requestId !== "";
    const timeout = request.header.get(TIMEOUT_HEADER);
    const endsAt = performance.now() + Number(timeout ?? DEFAULT_PATIENCE_MS);
    for (let tries = 1; ; tries++) {
      try {
        return await next(request);
      } catch (error) {
        const pauseMs = pauseAfter(error, mayRepeat, tries);
        if (pauseMs === undefined || tries >= maxTries || request.signal.aborted) throw error;
        // The service's error says more than that the time is over.
        const leftMs = endsAt - performance.now() - pauseMs;
        if (leftMs < 1) throw error;
        await timers.setTimeout(pauseMs, undefined, { signal: request.signal }).catch(() => {
          throw error;
        });
        if (timeout !== null) request.header.set(TIMEOUT_HEADER, String(Math.floor(leftMs)));
      }
    }
  };
}

/** How long to wait before a call that failed is tried again, in milliseconds; undefined: it must not be. */
function pauseAfter(error: unknown, mayRepeat: boolean, tries: number): number | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  const waitMs = retryAfterMs(error);
  // Half of it is random, so that callers that failed together do not return together.
  const halfMs = Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), MAX_BACKOFF_MS) / 2;
  const pauseMs = (waitMs ?? 0) + halfMs * (1 + Math.random());
  const details = failureDetails(error);
  if (!details && isNeverSent(error)) return pauseMs;
  // The connection broke before the answer came.
  if (!details && connectionFaultOf(error)?.fault === "reset") return mayRepeat ? pauseMs : undefined;
  switch (error.code) {
    case Code.ResourceExhausted:
      // Whoever asks to come back later has done nothing.
      return waitMs === undefined ? undefined : pauseMs;
    case Code.Unavailable:
      return mayRepeat || details?.outcome === "not_made" ? pauseMs : undefined;
    case Code.Aborted:
      // The error of Node's streams when the connection broke.
      return mayRepeat && !details ? pauseMs : undefined;
    default:
      return undefined;
  }
}
