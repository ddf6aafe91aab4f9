import { setTimeout } from "node:timers/promises";
import type { AuditEvent } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { AuditFollower, type FollowerOptions, followPauseMs } from "../../operator/src/audit-follower.ts";
import { EXIT, Failure } from "./failures.ts";

/** How to follow an audit trail. */
interface FollowOptions extends FollowerOptions {
  readonly signal: AbortSignal;
  /** Called when the service becomes unavailable, and when it is back. */
  readonly warn: (text: string) => void;
  /** The pause between two reads, in milliseconds. While the service is unavailable it doubles, up to 30 s. Default: 2000. */
  readonly intervalMs?: number;
}

/**
 * Yields the last events, the oldest first, and then new events as they arrive, each once, until the signal aborts. While
 * the service is unavailable it retries, and it misses no event.
 *
 * @throws Failure if the first read fails, or a later read for another reason; the reason of the signal
 */
export async function* followEvents(options: FollowOptions): AsyncGenerator<readonly AuditEvent[]> {
  const { signal, warn, intervalMs } = options;
  const follower = new AuditFollower(options);
  yield (await follower.next(signal)).toReversed();
  for (let failures = 0; ; ) {
    await setTimeout(followPauseMs(failures, intervalMs), undefined, { signal }).catch(() => {
      throw signal.reason;
    });
    try {
      const found = await follower.next(signal);
      if (failures > 0) warn("The service is back.");
      failures = 0;
      if (found.length > 0) yield found.toReversed();
    } catch (error) {
      if (signal.aborted || !(error instanceof Failure) || error.detail.exitCode !== EXIT.unavailable) throw error;
      if (failures === 0) warn(`${error.message}. Retrying until it is back.`);
      failures += 1;
    }
  }
}
