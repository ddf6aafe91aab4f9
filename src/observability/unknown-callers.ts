import type { Logger } from "./log.ts";

/** How often the log reports how many calls of unknown callers failed, in milliseconds. */
const INTERVAL_MS = 60_000;

/**
 * Limits the log lines about failed calls whose caller is not authenticated: anyone can make such calls, and while Redis is
 * away each of them fails. The first failure of each code gets a line of its own. Further failures are counted, and one
 * line a minute reports their number.
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
   * @param code the code of the error, as the log names it
   * @returns whether the caller of this method logs it: true for the first failure of a code
   */
  count(code: string): boolean {
    const counted = this.#counts.get(code);
    this.#counts.set(code, counted === undefined ? 0 : counted + 1);
    this.#timer ??= setInterval(() => this.report(), INTERVAL_MS).unref();
    return counted === undefined;
  }

  /** Logs the failures that no line has reported yet. After a minute without failures, the next one is the first again. */
  report(): void {
    for (const [code, calls] of this.#counts) {
      if (calls === 0) {
        this.#counts.delete(code);
        continue;
      }
      this.#logger.warn({ code, calls }, "calls of unknown callers failed");
      this.#counts.set(code, 0);
    }
    if (this.#counts.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
