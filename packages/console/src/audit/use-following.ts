import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useState } from "preact/hooks";
import type { AuditEvent } from "../../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { AuditFollower, type FollowerOptions, followPauseMs } from "../../../operator/src/audit-follower.ts";
import { announce } from "../parts/live.tsx";
import { watch } from "../parts/watch.ts";
import { failureOf } from "../session/failures.ts";
import { countText } from "../words.ts";

/** The most events that a page shows. There may be hundreds of thousands since the page was last visible. */
const MAX_EVENTS = 500;

interface Following {
  /** The events, the newest first. Undefined before the first read. */
  readonly events: readonly AuditEvent[] | undefined;
  readonly isPaused: boolean;
  /** The error of the last read. Another read follows unless `hasEnded`. */
  readonly error: unknown;
  readonly hasEnded: boolean;
}

/**
 * Follows an audit trail while the component is mounted and the page is visible. While the service is unavailable it retries,
 * and it misses no event.
 */
export function useFollowing(optionsFor: () => FollowerOptions): Following {
  const [state, setState] = useState<Following>({
    events: undefined,
    isPaused: false,
    error: undefined,
    hasEnded: false,
  });
  const [follower] = useState(() => new AuditFollower({ ...optionsFor(), maxEvents: MAX_EVENTS }));
  useEffect(() => {
    const leaving = new AbortController();
    const change = (changed: Partial<Following>) => {
      if (!leaving.signal.aborted) setState((before) => ({ ...before, ...changed }));
    };
    void follow(follower, change, leaving.signal);
    return () => leaving.abort();
  }, []);
  return state;
}

async function follow(
  follower: AuditFollower,
  change: (changed: Partial<Following>) => void,
  signal: AbortSignal,
): Promise<void> {
  let events: readonly AuditEvent[] | undefined;
  let failures = 0;
  const look = async () => {
    try {
      const found = await follower.next(signal);
      if (signal.aborted) return undefined;
      if (failures > 0) announce("The service is back.");
      failures = 0;
      if (events && found.length > 0) announce(countText(found.length, "new event"));
      events = [...found, ...(events ?? [])].slice(0, MAX_EVENTS);
      change({ events, error: undefined });
      return followPauseMs(failures);
    } catch (error) {
      const hasEnded = !isAway(error);
      change({ error, hasEnded });
      failures += 1;
      return hasEnded ? undefined : followPauseMs(failures);
    }
  };
  await watch(look, { signal, onPaused: (isPaused) => change({ isPaused }) });
}

/** Whether a later call may succeed. */
function isAway(error: unknown): boolean {
  const { code } = ConnectError.from(error);
  return failureOf(error).kind === undefined || code === Code.Unavailable || code === Code.ResourceExhausted;
}
