import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ListAuditEventsRequest } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { AuditEvent } from "../../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { itemsOf } from "./pages.ts";

const INTERVAL_MS = 2000;
const MAX_PAUSE_MS = 30_000;

/**
 * Returns the pause before the next read, in milliseconds.
 *
 * @param failures the number of consecutive failed reads. After the first failed read, each further failed read doubles
 *   the pause, up to `MAX_PAUSE_MS`
 */
export function followPauseMs(failures: number): number {
  return Math.min(MAX_PAUSE_MS, INTERVAL_MS * 2 ** Math.max(0, failures - 1));
}

type AuditRequest = Partial<Omit<ListAuditEventsRequest, "$typeName">>;

/** Reads a page of an audit trail, the newest event first. */
export type ListAuditEvents = (
  request: AuditRequest,
  signal: AbortSignal,
) => Promise<{ readonly auditEvents: readonly AuditEvent[]; readonly nextPageToken: string }>;

/** Options of `auditFollower`. */
export interface FollowerOptions {
  readonly list: ListAuditEvents;
  readonly filter: AuditRequest;
  /** Maximum number of existing events that the first call returns. */
  readonly shownFirst: number;
  /**
   * Maximum number of events that each later call returns. If there are more new events, the follower drops the oldest
   * new events. Default: no limit.
   */
  readonly maxEvents?: number;
}

/**
 * Returns a function that finds new events in an audit trail. The first call returns existing events. Each later call
 * returns the events that were added after the last successful call, so a failed call loses no event. The newest event
 * comes first. Each event is returned once.
 */
export function auditFollower({ list, filter, shownFirst, maxEvents }: FollowerOptions) {
  let isFirst = true;
  /** The newest event that was read. Undefined if the trail was empty. */
  let last: AuditEvent | undefined;
  return async (signal: AbortSignal): Promise<readonly AuditEvent[]> => {
    // Read the newest event of the trail, even if this event does not match the filter. The next call starts at this
    // event, and does not read older events again.
    const { environment } = filter;
    const [newest] = (await list({ environment, pageSize: 1 }, signal)).auditEvents;
    const startTime = later(last?.createTime, filter.startTime);
    const read = await itemsOf(isFirst ? shownFirst : maxEvents, async (page) => {
      const { auditEvents: items, nextPageToken } = await list({ ...filter, startTime, ...page }, signal);
      return { items, nextPageToken };
    });
    const found = read.filter((event) => idOf(event) > idOf(last));
    last = found[0] && idOf(found[0]) > idOf(newest) ? found[0] : newest;
    isFirst = false;
    return found;
  };
}

function idOf(event: AuditEvent | undefined): number {
  return Number(event?.id ?? 0);
}

function later(a: Timestamp | undefined, b: Timestamp | undefined): Timestamp | undefined {
  return a && b ? (timestampMs(b) > timestampMs(a) ? b : a) : (a ?? b);
}
