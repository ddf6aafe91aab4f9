import type { Logger } from "./log.ts";

/** How often the log reports the number of failed calls, in milliseconds. */
const INTERVAL_MS = 60_000;

/**
 * Limits the log lines about failed calls of unauthenticated clients. Anyone can make such calls, and all of them fail while
 * Redis does not answer. The first failure of each code has a line. Then one line per minute reports the number of further
 * failures.
 */
export class UnknownCallers {
  readonly #logger: Pick<Logger, "warn">;
  /** The failures of each code since the last line about it. */
  readonly #counts = new Map<string, number>();
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(logger: Pick<Logger, "warn">) {
    this.#logger = logger;
  }

  /**
   * Counts a failure.
   *
   * @param code the code of the error in the log
   * @returns true if the caller must log the failure, because it is the first failure of its code
   */
  count(code: string): boolean {
    const counted = this.#counts.get(code);
    this.#counts.set(code, counted === undefined ? 0 : counted + 1);
    this.#timer ??= setInterval(() => this.report(), INTERVAL_MS).unref();
    return counted === undefined;
  }

  /** Logs the number of failures since the last line. After a minute without failures, the next failure has a line. */
  report(): void {
    for (const [code, calls] of this.#counts) {
      if (calls === 0) {
        this.#counts.delete(code);
        continue;
      }
      this.#logger.warn({ code, calls }, "calls of unauthenticated clients failed");
      this.#counts.set(code, 0);
    }
    if (this.#counts.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
