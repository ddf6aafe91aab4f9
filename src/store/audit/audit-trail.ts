import {
  type AuditEvent,
  type AuditedApiToken,
  type AuditFilter,
  type ExportedUserGroups,
  isAuditEventId,
} from "../../domain/audit.ts";
import { type Environment, type EnvironmentName, partitionOf } from "../../domain/environment.ts";
import { InvalidPageToken, RecordUnreadable } from "../../domain/errors.ts";
import { isRole } from "../../domain/role.ts";
import type { AuditStore } from "../../domain/store.ts";
import { environmentAuditKey, KEY, partitionPrefix, partitionsOf } from "../keys.ts";
import { inBatches, recordFromAnswer, textOf } from "../records.ts";
import type { StoreClient } from "../redis/client.ts";
import { type Audit, type AuditArgs, auditedScript, EVENT_FIELD } from "./audit.ts";

/** How many events are read from all streams together when a filter may drop most of them. */
const READ_FOR_FILTER = 4000;

/** How many times the size of a page is read in all, because events are not spread evenly over the streams. */
const READ_AHEAD = 4;

/** The minimum number of events to read from a stream. From thousands of streams it fills a page of a thousand. */
const MIN_READ = 4;

/** How many streams are read at once, so that one page does not keep Redis from its other callers. */
const BATCH = 100;

/** What the subject of an export begins with; no id of an API token is so short. */
const EXPORT = "export";

/**
 * One stream of an environment's events. They are numbered: those of the partitions, that of the environment itself, then
 * those of the updates in the partitions.
 */
interface Stream {
  readonly number: number;
  readonly key: string;
}

/** An event and where it stands. */
interface Found {
  readonly position: AuditPosition;
  readonly event: AuditEvent;
}

/** Writes an audit event that no change goes with: what it is about, and names of fields. Answers `done`. */
export const RECORD = auditedScript("ugRecord", {
  isAlone: true,
  args: ["subject", "names"],
  lua: `audit(subject, names)
return {'done', stamp}`,
});

/** The audit trail of environments in Redis. */
export function redisAuditTrail(client: StoreClient, audit: Audit): AuditStore {
  /** Reads the newest events of a stream, behind a position. */
  const read = async (
    environment: Environment,
    stream: Stream,
    { from = 0, before }: AuditFilter,
    { after, count }: { readonly after: AuditPosition | undefined; readonly count: number },
  ): Promise<Found[]> => {
    // Events past their retention may still be stored, but are not shown.
    const oldest = Math.max(from, Date.now() - audit.retentionMs, 0);
    const end = endFor(stream.number, after, before);
    const range = [stream.key, end, String(oldest), "COUNT", count] as const;
    const entries = await client.run("list-audit-events", "xrevrange", range);
    return entries.map(([id, fields]) => {
      const position = parsePosition(`${id}.${stream.number}`);
      if (!position) throw new RecordUnreadable(new Error(`${stream.key} has an event whose id is no time`));
      const isOfGroup = stream.number !== environment.partitions;
      return { position, event: eventFrom(position, fields, isOfGroup) };
    });
  };

  return {
    async recordExport(environment, { prefix, count }, by) {
      const subject = `${EXPORT} ${count} ${prefix}`;
      await recordEvent(client, environment, { subject, names: "token", ...audit.ofEnvironment(environment, by) });
    },

    async list(environment, filter, page) {
      const after = page.after === "" ? undefined : parsePosition(page.after);
      if (after === undefined && page.after !== "") throw new InvalidPageToken();
      const streams = streamsOf(environment, filter);
      const count = readCount(streams.length, filter, page.size);
      const found: Found[] = [];
      /** The first position behind which events may be missing, because a stream has more than was read. */
      let horizon: AuditPosition | undefined;
      const readOne = (stream: Stream) => read(environment, stream, filter, { after, count });
      for await (const batch of inBatches(streams, BATCH, readOne)) {
        for (const read of batch) {
          found.push(...read);
          const last = read.length < count ? undefined : read.at(-1)?.position;
          if (last && (!horizon || comparePositions(last, horizon) < 0)) horizon = last;
        }
      }
      const end = horizon;
      const whole = end === undefined ? found : found.filter(({ position }) => comparePositions(position, end) <= 0);
      const shown = whole
        .filter(({ event }) => isWanted(event, filter))
        .sort((one, other) => comparePositions(one.position, other.position));
      const items = shown.slice(0, page.size);
      const next = shown.length > page.size ? items.at(-1)?.position : horizon;
      return { items: items.map(({ event }) => event), next: next && formatPosition(next) };
    },
  };
}

/** Writes an event of an environment with which no change goes, or many. @throws TooFewReplicas after it was written */
export async function recordEvent(
  client: StoreClient,
  environment: EnvironmentName,
  event: AuditArgs & { readonly subject: string; readonly names: string },
): Promise<void> {
  await client.change("record-audit-event", RECORD, { key: environmentAuditKey(environment), ...event });
}

/** The streams that may have what a filter wants. */
function streamsOf(environment: Environment, { userGroupId }: AuditFilter): Stream[] {
  const { partitions } = environment;
  const ofPartition = (partition: number): Stream[] => {
    const prefix = partitionPrefix(environment, partition);
    return [
      { number: partition, key: prefix + KEY.audit },
      { number: partitions + 1 + partition, key: prefix + KEY.updatesAudit },
    ];
  };
  if (userGroupId !== undefined) return ofPartition(partitionOf(environment, userGroupId));
  const ofEnvironment = { number: partitions, key: environmentAuditKey(environment) };
  return [ofEnvironment, ...partitionsOf(environment).flatMap(ofPartition)];
}

/** How many events to read of each stream. */
function readCount(streams: number, { userGroupId, actorId, method }: AuditFilter, size: number): number {
  const isFiltered = userGroupId !== undefined || actorId !== undefined || method !== undefined;
  if (isFiltered) return Math.max(MIN_READ, Math.ceil(READ_FOR_FILTER / streams));
  return Math.min(size + 1, Math.max(MIN_READ, Math.ceil((READ_AHEAD * size) / streams)));
}

function isWanted(event: AuditEvent, { userGroupId, actorId, method }: AuditFilter): boolean {
  return (
    (userGroupId === undefined || event.userGroupId === userGroupId) &&
    (actorId === undefined || event.actorId === actorId) &&
    (method === undefined || event.method === method)
  );
}

/** @throws RecordUnreadable */
function eventFrom(position: AuditPosition, fields: readonly string[], isOfGroup: boolean): AuditEvent {
  const id = formatPosition(position);
  const record = recordFromAnswer(fields, 0);
  const text = (field: string) => textOf(record, field, `the audit event ${id}`);
  const role = text(EVENT_FIELD.role);
  if (!isRole(role) && role !== "root" && role !== "service") {
    throw new RecordUnreadable(new Error(`the audit event ${id} has no known role`));
  }
  const subject = text(EVENT_FIELD.subject);
  const exported = isOfGroup ? undefined : exportFrom(subject);
  const changedFields = text(EVENT_FIELD.changedFields);
  return {
    id,
    time: position.ms,
    actorId: text(EVENT_FIELD.actorId),
    actorName: text(EVENT_FIELD.actorName),
    role,
    method: text(EVENT_FIELD.method),
    userGroupId: isOfGroup ? subject : undefined,
    apiToken: isOfGroup || exported || subject === "" ? undefined : apiTokenOf(subject),
    exported,
    changedFields: changedFields === "" ? [] : changedFields.split(","),
    requestId: text(EVENT_FIELD.requestId),
    peer: text(EVENT_FIELD.peer),
  };
}

/** What `subjectOf` wrote of an API token: `ID ROLE NAME`, or its id alone. */
function apiTokenOf(subject: string): AuditedApiToken {
  const [id = "", role = "", ...name] = subject.split(" ");
  return { id, role, displayName: name.join(" ") };
}

/** What `recordExport` wrote: `export COUNT PREFIX`; undefined for any other subject. */
function exportFrom(subject: string): ExportedUserGroups | undefined {
  const [kind, count, ...prefix] = subject.split(" ");
  return kind === EXPORT ? { count: Number(count), prefix: prefix.join(" ") } : undefined;
}

/**
 * The place of an event in the order of all events of an environment: the newest first; where events of several streams
 * have the same id, the one of the stream with the lowest number first. New events come before all others, so the later
 * pages stay the same.
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
