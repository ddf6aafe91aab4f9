import { setTimeout } from "node:timers/promises";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { AuditEvent } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { EXIT, Failure } from "./failures.ts";
import { pagesOf } from "./pages.ts";

/** How often is looked for new events, and how much longer at most while the service is away, in milliseconds. */
const INTERVAL_MS = 2000;
const MAX_PAUSE_MS = 30_000;

/**
 * How far before the newest event is looked again, in milliseconds: events have the time of the Redis node that wrote
 * them, so that one of another node may appear later and yet be a little older.
 */
const OVERLAP_MS = 10_000;

/** What to follow. */
export interface FollowOptions {
  /** Reads a page of events, the newest first. */
  readonly read: (request: {
    readonly pageSize: number;
    readonly pageToken: string;
    readonly startTime?: Timestamp;
  }) => Promise<{ readonly items: readonly AuditEvent[]; readonly nextPageToken: string }>;
  /** Reads the newest event of all, which `read` may leave out: what is older need not be looked at again. */
  readonly newest: () => Promise<AuditEvent | undefined>;
  /** How many events that there are come first. */
  readonly before: number;
  readonly signal: AbortSignal;
  /** Is told when the service is away, and that it is back. */
  readonly warn: (text: string) => void;
  /** In milliseconds. Default: 2000. */
  readonly intervalMs?: number;
}

/**
 * Gives the last events, the oldest first, and then new ones as they come, each once, until the signal aborts. While the
 * service is away it waits: nothing is left out.
 *
 * @throws Failure when the first read fails, or a later one otherwise than by the service being away; the signal's reason
 */
export async function* followEvents(options: FollowOptions): AsyncGenerator<readonly AuditEvent[]> {
  const { read, newest, before, signal, warn, intervalMs = INTERVAL_MS } = options;
  /** The times of the events that were given and may be read again, by id. */
  const given = new Map<string, number>();
  /** Up to here the trail was looked at. */
  let seenMs: number | undefined;
  let failures = 0;
  /** Remembers what was found, with the newest event that there was before. @returns what was not given yet, in order */
  const fresh = (found: readonly AuditEvent[], last: AuditEvent | undefined) => {
    const unseen = found.filter(({ id }) => !given.has(id)).sort((a, b) => msOf(a) - msOf(b));
    for (const event of unseen) given.set(event.id, msOf(event));
    if (last) seenMs = Math.max(seenMs ?? 0, msOf(last));
    for (const [id, ms] of given) if (ms < (seenMs ?? 0) - OVERLAP_MS) given.delete(id);
    return unseen;
  };

  const last = await newest();
  yield fresh(await all(pagesOf(before, read)), last);
  for (;;) {
    await setTimeout(failures === 0 ? intervalMs : pauseAfter(failures), undefined, { signal }).catch(() => {
      throw signal.reason;
    });
    const startTime = seenMs === undefined ? undefined : timestampFromMs(seenMs - OVERLAP_MS);
    try {
      const last = await newest();
      const found = await all(pagesOf(undefined, (page) => read(startTime ? { ...page, startTime } : page)));
      if (failures > 0) warn("The service is back.");
      failures = 0;
      yield fresh(found, last);
    } catch (error) {
      if (signal.aborted || !(error instanceof Failure) || error.detail.exitCode !== EXIT.unavailable) throw error;
      if (failures === 0) warn(`${error.message}. Trying again until it is back.`);
      failures += 1;
    }
  }
}

function pauseAfter(failures: number): number {
  return Math.min(MAX_PAUSE_MS, INTERVAL_MS * 2 ** (failures - 1));
}

async function all(pages: AsyncIterable<readonly AuditEvent[]>): Promise<AuditEvent[]> {
  const found: AuditEvent[] = [];
  for await (const page of pages) found.push(...page);
  return found;
}

function msOf({ createTime }: AuditEvent): number {
  return createTime ? timestampMs(createTime) : 0;
}
