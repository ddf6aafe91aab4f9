import { isAuditEventId } from "../domain/audit.ts";

/**
 * Where an event stands among all of an environment: by its time, the newest first; then by the number of its stream;
 * then by its place in the stream, the newest first. What is written later stands before, so that pages stay as they are.
 */
export interface AuditPosition {
  /** The time of the event, in milliseconds since 1970: the first part of its id in the stream. */
  readonly ms: number;
  /** The second part of its id. */
  readonly sequence: number;
  readonly stream: number;
}

/** Parses the id of an event; undefined for any other text. */
export function parsePosition(text: string): AuditPosition | undefined {
  if (!isAuditEventId(text)) return undefined;
  const [ms, sequence, stream] = text.split(/[-.]/).map(Number) as [number, number, number];
  // No event has the first of all ids, and Redis knows none before it.
  return ms + sequence === 0 ? undefined : { ms, sequence, stream };
}

/** The id of the event at a position. */
export function formatPosition({ ms, sequence, stream }: AuditPosition): string {
  return `${ms}-${sequence}.${stream}`;
}

/** Which of two positions comes first: negative when the first does. */
export function comparePositions(one: AuditPosition, other: AuditPosition): number {
  return other.ms - one.ms || one.stream - other.stream || other.sequence - one.sequence;
}

/**
 * The id up to which XREVRANGE reads a stream.
 *
 * @param after the position behind which events are wanted; undefined: all
 * @param before the time before which they are wanted, in milliseconds since 1970; undefined: all
 */
export function endFor(stream: number, after: AuditPosition | undefined, before = Number.POSITIVE_INFINITY): string {
  if (after === undefined || before <= after.ms) return before === Number.POSITIVE_INFINITY ? "+" : upToMs(before - 1);
  if (stream === after.stream) return `(${after.ms}-${after.sequence}`;
  // Of the streams before its own, those of the same millisecond are on the pages before.
  return upToMs(stream < after.stream ? after.ms - 1 : after.ms);
}

/** XREVRANGE takes it for the last id of that millisecond. */
function upToMs(ms: number): string {
  return String(Math.max(ms, 0));
}
