import type { ReadyKind, StoreProbe } from "../domain/store.ts";
import { errorFields, type Logger } from "../observability/log.ts";

/** How long the result of a check is reused, in milliseconds: short enough to report an outage at once. */
export const PROBE_KEPT_MS = 100;

/** What readiness depends on. */
interface ReadinessDeps {
  readonly probe: StoreProbe;
  readonly logger: Pick<Logger, "info" | "error">;
  /** How long the result of a check is reused, in milliseconds. Default: `PROBE_KEPT_MS`. */
  readonly keptMs?: number;
}

/**
 * Whether reads and changes work now. Probes need no API token, so unauthenticated clients must not be able to load the
 * store through them: at most one check of each kind runs at a time, and probes within `keptMs` share its result.
 */
export class Readiness {
  readonly #checks: { readonly [kind in ReadyKind]: SharedCheck };

  constructor({ probe, logger, keptMs = PROBE_KEPT_MS }: ReadinessDeps) {
    const checkOf = (kind: ReadyKind) =>
      new SharedCheck(() => probe.check(kind), {
        keptMs,
        onFailed: (error) => logger.error(errorFields(error), `not ready: ${kind} fail`),
        onPassed: () => logger.info(`ready again: ${kind}`),
      });
    this.#checks = { reads: checkOf("reads"), changes: checkOf("changes") };
  }

  /** Checks whether calls of a kind work now. */
  is(kind: ReadyKind): Promise<boolean> {
    return this.#checks[kind].passes();
  }
}

interface SharedCheckOptions {
  readonly keptMs: number;
  /** Called when a check fails for the first time, or after one that passed. */
  readonly onFailed: (error: unknown) => void;
  /** Called when a check passes after one that failed. */
  readonly onPassed: () => void;
}

/** A check whose result concurrent callers share. */
class SharedCheck {
  readonly #check: () => Promise<void>;
  readonly #options: SharedCheckOptions;
  #result: Promise<boolean> | undefined;
  /** The result is reused until this time of `performance.now()`. */
  #until = 0;
  #isFailing = false;

  constructor(check: () => Promise<void>, options: SharedCheckOptions) {
    this.#check = check;
    this.#options = options;
  }

  passes(): Promise<boolean> {
    if (this.#result && performance.now() < this.#until) return this.#result;
    this.#until = Number.POSITIVE_INFINITY;
    this.#result = this.#check().then(
      () => this.#keep(undefined),
      (error: unknown) => this.#keep({ error }),
    );
    return this.#result;
  }

  #keep(failure: { readonly error: unknown } | undefined): boolean {
    const { keptMs, onFailed, onPassed } = this.#options;
    this.#until = performance.now() + keptMs;
    if (failure && !this.#isFailing) onFailed(failure.error);
    if (!failure && this.#isFailing) onPassed();
    this.#isFailing = failure !== undefined;
    return failure === undefined;
  }
}
