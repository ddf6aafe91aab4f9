import { sharedResult } from "../domain/shared-result.ts";
import type { ReadyKind, StoreProbe } from "../domain/store.ts";
import { errorFields, type Logger } from "../observability/log.ts";

/** How long the result of a check is reused, in milliseconds: short enough to report an outage at once. */
export const PROBE_KEPT_MS = 100;

/** What readiness depends on. */
interface ReadinessDeps {
  readonly probe: StoreProbe;
  readonly logger: Pick<Logger, "info" | "error">;
  /** Whether the store is open. Nothing is ready before. Default: it is. */
  readonly isOpen?: () => boolean;
  /** How long the result of a check is reused, in milliseconds. Default: `PROBE_KEPT_MS`. */
  readonly keptMs?: number;
}

/**
 * Whether reads and changes work now. Probes need no API token, so unauthenticated clients must not be able to load the
 * store through them: at most one check of each kind runs at a time, and probes within `keptMs` share its result.
 */
export class Readiness {
  readonly #checks: { readonly [kind in ReadyKind]: () => Promise<boolean> };

  readonly #isOpen: () => boolean;

  constructor({ probe, logger, isOpen = () => true, keptMs = PROBE_KEPT_MS }: ReadinessDeps) {
    this.#isOpen = isOpen;
    const checkOf = (kind: ReadyKind) => {
      let isFailing = false;
      return sharedResult(keptMs, async () => {
        try {
          await probe.check(kind);
        } catch (error) {
          if (!isFailing) logger.error(errorFields(error), `not ready: ${kind} fail`);
          isFailing = true;
          return false;
        }
        if (isFailing) logger.info(`ready again: ${kind}`);
        isFailing = false;
        return true;
      });
    };
    this.#checks = { reads: checkOf("reads"), changes: checkOf("changes") };
  }

  /** Checks whether calls of a kind work now. */
  async is(kind: ReadyKind): Promise<boolean> {
    return this.#isOpen() && this.#checks[kind]();
  }
}
