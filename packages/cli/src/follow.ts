import { setTimeout } from "node:timers/promises";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { AuditEvent } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { EXIT, Failure } from "./failures.ts";
import { pagesOf } from "./pages.ts";

const INTERVAL_MS = 2000;
const MAX_PAUSE_MS = 30_000;

/**
 * How far before the newest event is looked again, in milliseconds: events have the time of the Redis node that wrote
 * them, so that one of another node may appear later and yet be a little older.
 */
const OVERLAP_MS = 5000;

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
  /** How often is looked for new events, in milliseconds. Default: 2000. */
  readonly intervalMs?: number;
  /** The first pause while the service is away, in milliseconds; it doubles up to 30 s. Default: 2000. */
  readonly pauseMs?: number;
}

/**
 * Gives the last events, the oldest first, and then new ones as they come, each once, until the signal aborts. While the
 * service is away it waits: nothing is left out.
 *
 * @throws Failure when the first read fails, or a later one otherwise than by the service being away; the signal's reason
 */
export async function* followEvents(options: FollowOptions): AsyncGenerator<readonly AuditEvent[]> {
  const { read, newest, before, signal, warn, intervalMs = INTERVAL_MS, pauseMs = INTERVAL_MS } = options;
  /** The times of the events that were given and may be read again, by id. */
  const given = new Map<string, number>();
  /** Up to here the trail was looked at. */
  let seenMs: number | undefined;
  let failures = 0;
  const since = () => (seenMs === undefined ? undefined : timestampFromMs(seenMs - OVERLAP_MS));
  const readSince = (startTime: Timestamp | undefined) =>
    all(pagesOf(undefined, (page) => read(startTime ? { ...page, startTime } : page)));
  /** Remembers what was found, and the newest event that there was before. */
  const remember = (found: readonly AuditEvent[], last: AuditEvent | undefined) => {
    for (const event of found) given.set(event.id, msOf(event));
    if (last) seenMs = Math.max(seenMs ?? 0, msOf(last));
    for (const [id, ms] of given) if (ms < (seenMs ?? 0) - OVERLAP_MS) given.delete(id);
  };

  const last = await newest();
  remember([], last);
  // Of what there is already, more may be read again than is shown.
  if (last) remember(await readSince(since()), undefined);
  const shown = await all(pagesOf(before, read));
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
