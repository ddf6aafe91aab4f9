import { setTimeout } from "node:timers/promises";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { AuditEvent } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { EXIT, Failure } from "./failures.ts";
import { pagesOf } from "./pages.ts";

const INTERVAL_MS = 2000;
const MAX_PAUSE_MS = 30_000;

/**
 * How far back before the newest event each look reads again, in milliseconds. An event has the time of the Redis node
 * that wrote it, so one of another node may appear later and yet be a little older.
 */
const OVERLAP_MS = 5000;

/** What to follow. */
interface FollowOptions {
  /** Reads a page of events, the newest first. */
  readonly read: (request: {
    readonly pageSize: number;
    readonly pageToken: string;
    readonly startTime?: Timestamp;
  }) => Promise<{ readonly items: readonly AuditEvent[]; readonly nextPageToken: string }>;
  /** Reads the newest event, even one that `read` leaves out by a filter. Older events need not be read again. */
  readonly newest: () => Promise<AuditEvent | undefined>;
  /** How many of the present events are shown first. */
  readonly shownFirst: number;
  readonly signal: AbortSignal;
  /** Called when the service is away, and when it is back. */
  readonly warn: (text: string) => void;
  /** The pause between two looks for new events, in milliseconds. Default: 2000. */
  readonly intervalMs?: number;
  /** The first pause while the service is away, in milliseconds; it doubles up to 30 s. Default: 2000. */
  readonly pauseMs?: number;
}

/**
 * Yields the last events, the oldest first, and then new ones as they come, each once, until the signal aborts. While
 * the service is away it waits, and leaves out no event.
 *
 * @throws Failure when the first read fails, or a later one for any reason but that the service is away; the signal's
 * reason
 */
export async function* followEvents(options: FollowOptions): AsyncGenerator<readonly AuditEvent[]> {
  const { read, newest, shownFirst, signal, warn, intervalMs = INTERVAL_MS, pauseMs = INTERVAL_MS } = options;
  /** The times of the events that were given and may be read again, by id. */
  const given = new Map<string, number>();
  /** The time of the newest event that was seen. */
  let seenMs: number | undefined;
  let failures = 0;
  const since = () => (seenMs === undefined ? undefined : timestampFromMs(seenMs - OVERLAP_MS));
  const readSince = (startTime: Timestamp | undefined) =>
    all(pagesOf(undefined, (page) => read(startTime ? { ...page, startTime } : page)));
  /** Remembers events as seen, and `last` as the newest event. */
  const remember = (found: readonly AuditEvent[], last: AuditEvent | undefined) => {
    for (const event of found) given.set(event.id, msOf(event));
    if (last) seenMs = Math.max(seenMs ?? 0, msOf(last));
    for (const [id, ms] of given) if (ms < (seenMs ?? 0) - OVERLAP_MS) given.delete(id);
  };

  const last = await newest();
  remember([], last);
  // The first look may read more of the present events again than are shown.
  if (last) remember(await readSince(since()), undefined);
  const shown = await all(pagesOf(shownFirst, read));
  remember(shown, undefined);
  yield inOrder(shown);
  for (;;) {
    const waitMs = failures === 0 ? intervalMs : Math.min(MAX_PAUSE_MS, pauseMs * 2 ** (failures - 1));
    await setTimeout(waitMs, undefined, { signal }).catch(() => {
      throw signal.reason;
    });
    try {
      const last = await newest();
      const found = await readSince(since());
      if (failures > 0) warn("The service is back.");
      failures = 0;
      const unseen = found.filter(({ id }) => !given.has(id));
      remember(unseen, last);
      if (unseen.length > 0) yield inOrder(unseen);
    } catch (error) {
      if (signal.aborted || !(error instanceof Failure) || error.detail.exitCode !== EXIT.unavailable) throw error;
      if (failures === 0) warn(`${error.message}. Trying again until it is back.`);
      failures += 1;
    }
  }
}

async function all(pages: AsyncIterable<readonly AuditEvent[]>): Promise<AuditEvent[]> {
  const found: AuditEvent[] = [];
  for await (const page of pages) found.push(...page);
  return found;
}

function inOrder(events: readonly AuditEvent[]): AuditEvent[] {
  return [...events].sort((a, b) => msOf(a) - msOf(b));
}

function msOf({ createTime }: AuditEvent): number {
  return createTime ? timestampMs(createTime) : 0;
}
