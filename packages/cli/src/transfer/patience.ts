import { setTimeout } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { failureDetails, type Reason, reasonOf, retryAfterMs } from "@user-group-service/client";

/** How long to retry after the last success, in milliseconds. */
const PATIENCE_MS = 5 * 60_000;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 15_000;

/** Codes that a retry does not change. */
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

/** Reasons of RESOURCE_EXHAUSTED that a retry does not change. */
const FULL: ReadonlySet<Reason | undefined> = new Set(["MESSAGE_TOO_LARGE", "HEADER_TOO_LARGE", "ENVIRONMENT_FULL"]);

export interface PatienceOptions {
  readonly signal: AbortSignal;
  /** How long to retry after the last success, in milliseconds. Default: 5 minutes. */
  readonly patienceMs?: number | undefined;
  /** Called before each pause, with its length in milliseconds and its reason. */
  readonly onPause?: (pauseMs: number, reason: string) => void;
}

/** Pauses between retries. The pauses grow, or follow the `Retry-After` of the service. */
export class Patience {
  readonly #options: PatienceOptions;
  #failures = 0;
  #failingSince: number | undefined;

  constructor(options: PatienceOptions) {
    this.#options = options;
  }

  /** Call after a success. */
  reset(): void {
    this.#failures = 0;
    this.#failingSince = undefined;
  }

  /** Pauses before a retry. @throws the error, if a retry does not help or the time is up */
  async wait(error: unknown): Promise<void> {
    const { signal } = this.#options;
    if (!(error instanceof ConnectError) || signal.aborted || isFinal(error)) throw error;
    await this.pause(error, failureDetails(error)?.reason ?? Code[error.code], retryAfterMs(error) ?? 0);
  }

  /** Pauses before a retry. @param atLeastMs the pause that the service requests @throws the error, if the time is up */
  async pause(error: unknown, reason: string, atLeastMs: number): Promise<void> {
    const { signal, patienceMs = PATIENCE_MS, onPause } = this.#options;
    const now = performance.now();
    this.#failingSince ??= now;
    if (now - this.#failingSince > patienceMs) throw error;
    const growing = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures) * (0.5 + Math.random() / 2);
    const pauseMs = Math.max(growing, atLeastMs);
    this.#failures += 1;
    onPause?.(pauseMs, reason);
    // A pause that the service requests does not count.
    if (atLeastMs > 0) this.#failingSince += pauseMs;
    await setTimeout(pauseMs, undefined, { signal }).catch(() => {
      throw signal.reason;
    });
  }
}

/** Retries a call until it succeeds. @throws an error that a retry does not change, or the last error */
export async function patiently<T>(options: PatienceOptions, call: () => Promise<T>): Promise<T> {
  const patience = new Patience(options);
  for (;;) {
    try {
      return await call();
    } catch (error) {
      await patience.wait(error);
    }
  }
}

function isFinal(error: ConnectError): boolean {
  return FINAL.has(error.code) || FULL.has(reasonOf(error));
}
