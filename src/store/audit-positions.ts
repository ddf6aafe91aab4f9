import { isAuditEventId } from "../domain/audit.ts";

/**
 * The place of an event in the order of all events of an environment: the newest first; of those with one id in several
 * streams, that of the stream with the lowest number. New events come before all others, so the pages behind stay the
 * same.
 */
export interface AuditPosition {
  /** The time of the event, in milliseconds since 1970: the first part of its id in the stream. */
  readonly ms: number;
  /** The second part of its id: the microseconds, unless the clock was set back. */
  readonly sequence: number;
  readonly stream: number;
}

/** Parses the id of an event; undefined for any other text. */
export function parsePosition(text: string): AuditPosition | undefined {
  if (!isAuditEventId(text)) return undefined;
  const [ms, sequence, stream] = text.split(/[-.]/).map(Number) as [number, number, number];
  // Redis gives no event the id 0-0, and accepts none that is lower.
  return ms + sequence === 0 ? undefined : { ms, sequence, stream };
}

/** The id of the event at a position. */
export function formatPosition({ ms, sequence, stream }: AuditPosition): string {
  return `${ms}-${sequence}.${stream}`;
}

/** Compares two positions; negative when the first one comes first. */
export function comparePositions(one: AuditPosition, other: AuditPosition): number {
  return other.ms - one.ms || other.sequence - one.sequence || one.stream - other.stream;
}

/**
 * The id up to which XREVRANGE reads a stream.
 *
 * @param after the position behind which events are wanted; undefined: all
 * @param before the time before which they are wanted, in milliseconds since 1970; undefined: all
 */
export function endFor(stream: number, after: AuditPosition | undefined, before = Number.POSITIVE_INFINITY): string {
  if (after !== undefined && after.ms < before) {
    // Streams with a lower number, and this one, have shown their event with that id on the pages before.
    return `${stream <= after.stream ? "(" : ""}${after.ms}-${after.sequence}`;
  }
  // An id without its second part, which XREVRANGE takes for the last one of that millisecond.
  return before === Number.POSITIVE_INFINITY ? "+" : String(Math.max(before - 1, 0));
}
