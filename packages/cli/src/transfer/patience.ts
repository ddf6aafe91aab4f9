import { setTimeout } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { failureDetails, type Reason, reasonOf, retryAfterMs } from "@user-group-service/client";

/** How long to repeat calls that fail, counted from the last success, in milliseconds. */
const PATIENCE_MS = 5 * 60_000;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 15_000;

/** Codes of errors that another try would meet again. */
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

/** Reasons of RESOURCE_EXHAUSTED that waiting does not change. */
const FULL: ReadonlySet<Reason | undefined> = new Set(["MESSAGE_TOO_LARGE", "HEADER_TOO_LARGE", "ENVIRONMENT_FULL"]);

/** How calls are repeated. */
export interface PatienceOptions {
  readonly signal: AbortSignal;
  /** Default: 5 minutes, in milliseconds. */
  readonly patienceMs?: number | undefined;
  /** Called for every pause with its length, in milliseconds, and its reason. */
  readonly onPause?: (pauseMs: number, reason: string) => void;
}

/** Repeats calls that may be repeated, with pauses that grow or that the service asks for. */
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

  /** Waits before another try. @throws the error, when another try is of no use or patience has run out */
  async wait(error: unknown): Promise<void> {
    const { signal } = this.#options;
    if (!(error instanceof ConnectError) || signal.aborted || isFinal(error)) throw error;
    await this.#pause(error, failureDetails(error)?.reason ?? Code[error.code], retryAfterMs(error) ?? 0);
  }

  /**
   * Waits before another try after an answer that reports failures. @throws ConnectError Unavailable when patience has
   * run out
   */
  async waitAfter(reason: string, message: string): Promise<void> {
    await this.#pause(new ConnectError(message, Code.Unavailable), reason, 0);
  }

  async #pause(error: unknown, reason: string, atLeastMs: number): Promise<void> {
    const { signal, patienceMs = PATIENCE_MS, onPause } = this.#options;
    const now = performance.now();
    this.#failingSince ??= now;
    if (now - this.#failingSince > patienceMs) throw error;
    const growing = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures) * (0.5 + Math.random() / 2);
    const pauseMs = Math.max(growing, atLeastMs);
    this.#failures += 1;
    onPause?.(pauseMs, reason);
    // A pause that the service asks for does not count.
    if (atLeastMs > 0) this.#failingSince += pauseMs;
    await setTimeout(pauseMs, undefined, { signal }).catch(() => {
      throw signal.reason;
    });
  }
}

/**
 * Repeats a call until it succeeds. @throws an error that another try would meet again, or the last one when patience
 * has run out
 */
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
