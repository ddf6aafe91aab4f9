import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { AuditEvent } from "../../../../gen/usergroup/admin/v1/audit_event_pb.ts";

/**
 * How far back before the newest event each look reads again, in milliseconds. An event has the time of the Redis node
 * that wrote it, so one of another node may appear later and yet be a little older.
 */
const OVERLAP_MS = 5000;

/** What reads an audit trail. */
export interface AuditReader {
  /** Reads the newest event, even one that the filter leaves out. Older events need not be read again. */
  readonly newest: (signal: AbortSignal) => Promise<AuditEvent | undefined>;
  /** Reads the last events that match the filter. */
  readonly last: (signal: AbortSignal) => Promise<readonly AuditEvent[]>;
  /** Reads the events since a time that match the filter, the newest first, until there are `MAX_READ` or more. */
  readonly since: (startTime: Timestamp, signal: AbortSignal) => Promise<readonly AuditEvent[]>;
}

/**
 * How many new events are enough for once: no more are kept, and there may be hundreds of thousands since the page was last
 * seen.
 */
export const MAX_READ = 500;

/** Finds what is new in an audit trail. */
export class AuditFollower {
  readonly #reader: AuditReader;
  /** The times of events that were returned and may be read again, by id. */
  readonly #given = new Map<string, number>();
  /** The time of the newest event that was seen, in milliseconds; undefined before the first look. */
  #seenMs: number | undefined;
  /** Events before this time, in milliseconds, are left out, because there were too many. */
  #fromMs = 0;

  constructor(reader: AuditReader) {
    this.#reader = reader;
  }

  /**
   * Returns the last events the first time, and then what is new, the newest first. Each event is returned once, even
   * one that appears late. After a failure the next call returns what is missing. Of more events than are kept, the
   * oldest are left out.
   */
  async next(signal: AbortSignal): Promise<readonly AuditEvent[]> {
    const newest = await this.#reader.newest(signal);
    const last = this.#seenMs === undefined ? await this.#reader.last(signal) : [];
    const seenMs = this.#seenMs ?? (newest ? msOf(newest) : 0);
    const found = await this.#reader.since(timestampFromMs(Math.max(this.#fromMs, seenMs - OVERLAP_MS)), signal);
    const oldest = found.at(-1);
    if (found.length >= MAX_READ && oldest) this.#fromMs = msOf(oldest);
    const unseen = new Map<string, AuditEvent>();
    for (const event of [...last, ...found]) if (!this.#given.has(event.id)) unseen.set(event.id, event);
    this.#seenMs = Math.max(seenMs, newest ? msOf(newest) : 0);
    for (const event of unseen.values()) this.#given.set(event.id, msOf(event));
    for (const [id, ms] of this.#given) if (ms < this.#seenMs - OVERLAP_MS) this.#given.delete(id);
    return [...unseen.values()].sort((a, b) => msOf(b) - msOf(a));
  }
}

/** The time of an event, in milliseconds. */
function msOf({ createTime }: AuditEvent): number {
  return createTime ? timestampMs(createTime) : 0;
}
