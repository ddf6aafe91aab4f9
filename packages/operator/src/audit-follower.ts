import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ListAuditEventsRequest } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { AuditEvent } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { itemsOf } from "./pages.ts";

/**
 * The time between the start of a read and the newest known event, in milliseconds. Each Redis node sets the times of the
 * events that it writes, so an event of another node can appear later with an earlier time.
 */
const OVERLAP_MS = 5000;

/** The default pause between two reads, in milliseconds. */
const INTERVAL_MS = 2000;
/** The longest pause, in milliseconds. */
const MAX_PAUSE_MS = 30_000;

/** The pause before the next read, in milliseconds. It doubles with each failure after the first. */
export function followPauseMs(failures: number, intervalMs = INTERVAL_MS): number {
  return Math.min(MAX_PAUSE_MS, intervalMs * 2 ** Math.max(0, failures - 1));
}

/** The fields of a request that the follower sets or passes on. */
type AuditRequest = Partial<Omit<ListAuditEventsRequest, "$typeName">>;

/** Reads a page of an audit trail, the newest event first. */
export type ListAuditEvents = (
  request: AuditRequest,
  signal: AbortSignal,
) => Promise<{ readonly auditEvents: readonly AuditEvent[]; readonly nextPageToken: string }>;

/** The events to follow. */
export interface FollowerOptions {
  readonly list: ListAuditEvents;
  /** The environment, and a filter for its events. */
  readonly filter: AuditRequest;
  /** How many existing events the first read returns. */
  readonly shownFirst: number;
  /** The maximum number of events that one read returns; the oldest are dropped. Default: no limit. */
  readonly maxEvents?: number;
}

/** Finds new events in an audit trail. */
export class AuditFollower {
  readonly #options: FollowerOptions;
  /** The times of returned events that may be read again, by id. */
  readonly #returned = new Map<string, number>();
  /** The time of the newest event, in milliseconds; undefined before the first read. */
  #newestMs: number | undefined;
  /** Events before this time, in milliseconds, are dropped, because there were too many. */
  #fromMs = 0;

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  /**
   * Returns existing events on the first call, then new events, the newest first. It returns each event once, even an
   * event that appears late. After a failure the next call returns the missing events.
   */
  async next(signal: AbortSignal): Promise<readonly AuditEvent[]> {
    const { list, filter, shownFirst, maxEvents } = this.#options;
    const { environment } = filter;
    // The newest event of any kind: older events need not be read again, even if the filter matches none since.
    const [newest] = (await list({ environment, pageSize: 1 }, signal)).auditEvents;
    const isFirst = this.#newestMs === undefined;
    const newestMs = this.#newestMs ?? (newest ? msOf(newest) : 0);
    const startTime = later(timestampFromMs(Math.max(this.#fromMs, newestMs - OVERLAP_MS)), filter.startTime);
    const found = await this.#read({ ...filter, startTime }, maxEvents, signal);
    const oldest = found.at(-1);
    if (maxEvents !== undefined && found.length >= maxEvents && oldest) this.#fromMs = msOf(oldest);
    // The first call reads the overlap first, and then the events that it returns, so that it misses none in between.
    const shown = isFirst ? await this.#read(filter, shownFirst, signal) : found;
    const unseen = shown.filter(({ id }) => !this.#returned.has(id));
    this.#newestMs = Math.max(newestMs, newest ? msOf(newest) : 0);
    for (const event of [...shown, ...found]) this.#returned.set(event.id, msOf(event));
    for (const [id, ms] of this.#returned) if (ms < this.#newestMs - OVERLAP_MS) this.#returned.delete(id);
    return unseen.sort((a, b) => msOf(b) - msOf(a));
  }

  /** Reads at most `limit` events. */
  #read(request: AuditRequest, limit: number | undefined, signal: AbortSignal): Promise<AuditEvent[]> {
    return itemsOf(limit, async (page) => {
      const { auditEvents: items, nextPageToken } = await this.#options.list({ ...request, ...page }, signal);
      return { items, nextPageToken };
    });
  }
}

function later(a: Timestamp, b: Timestamp | undefined): Timestamp {
  return b && timestampMs(b) > timestampMs(a) ? b : a;
}

function msOf({ createTime }: AuditEvent): number {
  return createTime ? timestampMs(createTime) : 0;
}
