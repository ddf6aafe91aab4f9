import timers from "node:timers/promises";
import type { AuditEvent } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { auditFollower, type FollowerOptions, followPauseMs } from "../../operator/src/audit-follower.ts";
import { EXIT, Failure } from "./failures.ts";

interface FollowOptions extends FollowerOptions {
  readonly signal: AbortSignal;
  /** Called with a message for the user when the service becomes unavailable, and again when the service is back. */
  readonly warn: (text: string) => void;
}

/**
 * Yields the last events, the oldest first, and then each new event once. After the first read, retries while the
 * service is unavailable.
 *
 * @throws Failure if the first read fails, or if a later read fails although the service is available
 * @throws AbortError if the signal aborts during the pause between two reads
 */
export async function* followEvents(options: FollowOptions): AsyncGenerator<readonly AuditEvent[]> {
  const { signal, warn } = options;
  const next = auditFollower(options);
  yield (await next(signal)).toReversed();
  for (let failures = 0; ; ) {
    await timers.setTimeout(followPauseMs(failures), undefined, { signal });
    try {
      const found = await next(signal);
      if (failures > 0) warn("The service is back.");
      failures = 0;
      if (found.length > 0) yield found.toReversed();
    } catch (error) {
      if (signal.aborted || !(error instanceof Failure) || error.detail.exitCode !== EXIT.unavailable) throw error;
      if (failures === 0) warn(`${error.message}. Retrying until the service is back.`);
      failures += 1;
    }
  }
}
