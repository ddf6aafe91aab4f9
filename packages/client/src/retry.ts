import timers from "node:timers/promises";
import type { DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { connectionFaultOf, isNeverSent } from "./connection-faults.ts";
import { failureDetails, retryAfterMs } from "./failure.ts";

/** How often a call is tried at most. A restart of the service takes a second or two: all pauses together last at least 2.9 s. */
export const MAX_TRIES = 6;

/** The longest pause before the second try, in milliseconds. It doubles with each further try, up to a maximum. */
const FIRST_PAUSE_MS = 250;
const MAX_BACKOFF_MS = 2000;

/** The longest pause that a timer takes, in milliseconds; a longer one would end at once. */
const MAX_PAUSE_MS = 2 ** 31 - 1;

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

/** Tries a call again if that is safe, within its deadline: `MAX_TRIES` times, with pauses that grow. */
export const retrying: Interceptor = (next) => async (request) => {
  if (request.stream) return next(request);
  const { requestId = "" } = request.message as { requestId?: string };
  const mayRepeat = isRepeatable(request.method) || requestId !== "";
  const timeoutMs = Number(request.header.get(TIMEOUT_HEADER) ?? Number.POSITIVE_INFINITY);
  const began = performance.now();
  for (let tries = 1; ; tries++) {
    try {
      return await next(request);
    } catch (error) {
      const pauseMs = pauseAfter(error, mayRepeat, tries);
      if (pauseMs === undefined || tries === MAX_TRIES || request.signal.aborted) throw error;
      // The service's error says more than that the time is over.
      const leftMs = timeoutMs - (performance.now() - began) - pauseMs;
      if (leftMs < 1 || pauseMs > MAX_PAUSE_MS) throw error;
      await timers.setTimeout(pauseMs, undefined, { signal: request.signal }).catch(() => {
        throw error;
      });
      if (Number.isFinite(leftMs)) request.header.set(TIMEOUT_HEADER, String(Math.floor(leftMs)));
    }
  }
};

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
