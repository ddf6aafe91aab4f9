import timers from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { retryAfterMs } from "@user-group-service/client";
import { Failure } from "../failures.ts";

/** The maximum time for the retries of a call, in milliseconds. Delays that the service requests are not counted. */
const PATIENCE_MS = 5 * 60_000;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 15_000;
/** The maximum delay that a service can request, in milliseconds. */
const MAX_DELAY_MS = 15 * 60_000;

/** Codes of errors after which a retry would also fail. */
const FINAL: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.NotFound,
  Code.AlreadyExists,
  Code.PermissionDenied,
  Code.FailedPrecondition,
  Code.OutOfRange,
  Code.Unimplemented,
  Code.DataLoss,
  Code.Unauthenticated,
]);

/** Reasons of RESOURCE_EXHAUSTED errors after which a retry would also fail. */
const FULL: ReadonlySet<string | undefined> = new Set(["MESSAGE_TOO_LARGE", "HEADER_TOO_LARGE", "ENVIRONMENT_FULL"]);

export interface PatienceOptions {
  readonly signal: AbortSignal;
  /** Called before each pause, with the length of the pause in milliseconds, and the reason. */
  readonly onPause?: (pauseMs: number, reason: string) => void;
}

/**
 * Repeats a call until it succeeds. Pauses between the attempts. The pauses grow with each failure, up to
 * `MAX_PAUSE_MS`. If the service requests a longer delay, the pause has the length of this delay, up to `MAX_DELAY_MS`.
 *
 * @throws the last error, if it is not a `Failure` whose cause is a `ConnectError`, or if a retry would also fail
 * @throws the last error, if `PATIENCE_MS` has passed, or if the signal has aborted
 * @throws AbortError if the signal aborts during a pause
 */
export async function patiently<T>({ signal, onPause }: PatienceOptions, call: () => Promise<T>): Promise<T> {
  let failingSince: number | undefined;
  for (let failures = 0; ; failures++) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof Failure) || signal.aborted) throw error;
      const { reason, cause } = error.detail;
      if (!(cause instanceof ConnectError) || FINAL.has(cause.code) || FULL.has(reason)) throw error;
      const atLeastMs = Math.min(MAX_DELAY_MS, retryAfterMs(cause) ?? 0);
      const now = performance.now();
      failingSince ??= now;
      if (now - failingSince > PATIENCE_MS) throw error;
      const growing = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures) * (0.5 + Math.random() / 2);
      const pauseMs = Math.max(growing, atLeastMs);
      onPause?.(pauseMs, reason ?? error.message);
      if (atLeastMs > 0) failingSince += pauseMs;
      await timers.setTimeout(pauseMs, undefined, { signal });
    }
  }
}
