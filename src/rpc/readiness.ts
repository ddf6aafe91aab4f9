import { sharedResult } from "../domain/shared-result.ts";
import type { ReadyKind, StoreProbe } from "../domain/store.ts";
import { errorFields, type Logger } from "../observability/log.ts";

/**
 * How long probes reuse the result of a check, in milliseconds. The time is short, so that probes soon detect an
 * outage.
 */
export const PROBE_KEPT_MS = 100;

interface ReadinessDeps {
  readonly probe: StoreProbe;
  readonly logger: Pick<Logger, "info" | "error">;
  readonly isOpen: () => boolean;
}

/**
 * Checks the store when a health probe arrives. Unauthenticated clients can send probes, so at most one check of each
 * kind runs at a time, and all probes within `PROBE_KEPT_MS` after the check share the result.
 */
export class Readiness {
  readonly #checks: { readonly [kind in ReadyKind]: () => Promise<boolean> };
  readonly #isOpen: () => boolean;

  constructor({ probe, logger, isOpen }: ReadinessDeps) {
    this.#isOpen = isOpen;
    const checkOf = (kind: ReadyKind) => {
      let isFailing = false;
      return sharedResult(PROBE_KEPT_MS, async () => {
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

  async is(kind: ReadyKind): Promise<boolean> {
    return this.#isOpen() && this.#checks[kind]();
  }
}
