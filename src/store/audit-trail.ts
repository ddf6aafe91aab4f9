import type { AuditEvent, AuditFilter } from "../domain/audit.ts";
import type { Environment } from "../domain/environment.ts";
import {
  AuditEventsExpired,
  EnvironmentNotFound,
  EventCursorExpired,
  InvalidPageToken,
  RecordUnreadable,
} from "../domain/errors.ts";
import { type EventPage, type EventStart, eventTypeOf, type FeedEvent } from "../domain/events.ts";
import { isRole } from "../domain/role.ts";
import type { AuditStore, EventStore } from "../domain/store.ts";
import { type Audit, dayOf, writeEvent } from "./audit.ts";
import type { StoreClient } from "./connection/client.ts";
import { type EventStream, environmentKey, eventsKey } from "./keys.ts";
import { inBatches, recordFromFields, textOf } from "./records.ts";
import { READ_EVENTS } from "./scripts.ts";

const READ_FOR_FILTER = 4000;

/** The maximum number of days that one call of `READ_EVENTS` reads. 200 days without events take 0.6 ms. */
const MAX_FEED_DAYS = 200;

const DAYS_AT_ONCE = 8;

const STREAMS: readonly EventStream[] = ["events", "updates"];

/**
 * The fields of an event. All events have the fields in the same order, so Redis stores the names only once for many
 * events.
 */
const EVENT_FIELD = {
  actorId: "a",
  actorName: "n",
  role: "r",
  method: "m",
  /**
   * A prefix and the changed resource. The prefix is `c:` for a created group, `g:` for a changed group, `t:` for an
   * API token, `w:` for a webhook, or `x:` for an export. Empty if the event concerns the environment.
   */
  subject: "i",
  /** Separated by commas. */
  changedFields: "f",
  requestId: "q",
  peer: "p",
} as const;

const EVENT_LENGTH = 2 * Object.keys(EVENT_FIELD).length;

/** A range of the events of one day. Both times are in microseconds since 1970. The range does not include `end`. */
interface DayRange {
  readonly day: number;
  readonly oldest: number;
  readonly end: number;
  readonly count: number;
}

export function redisAuditTrail(client: StoreClient, audit: Audit): AuditStore & EventStore {
  /** Reads the newest events of a day. `isWhole` is true if the result contains all events of the range. */
  const readDay = async (number: number, { day, oldest, end, count }: DayRange) => {
    const range = [`(${end}-0`, String(oldest), "COUNT", count] as const;
    const reads = STREAMS.map((stream) =>
      client.run("list-audit-events", "xrevrange", [eventsKey(number, stream, day), ...range]),
    );
    const streams = (await Promise.all(reads)).map((entries) => entries.map(eventFrom));
    // If a stream returned `count` events, its older events were not read. Drop all events before `known`, because
    // events of this stream may be missing there.
    const lasts = streams.map((events) => (events.length < count ? 0 : Number(events.at(-1)?.id)));
    const known = Math.max(...lasts);
    const events = streams.flat().filter(({ id }) => Number(id) >= known);
    return { events: events.sort((one, other) => Number(other.id) - Number(one.id)), isWhole: known === 0 };
  };

  return {
    async recordExport(environment, { providedIdPrefix, count }, by) {
      const subject = `x:${count} ${providedIdPrefix}`;
      await writeEvent({ client, audit, environment, by }, { subject, changedFields: "token" });
    },

    async readEvents({ number }: Environment, { cursor, cursorTime }: EventStart, count: number): Promise<EventPage> {
      const args = {
        environment: environmentKey(number),
        cursor: Math.min(cursor, Number.MAX_SAFE_INTEGER),
        cursorTime,
        retentionMs: audit.retentionMs,
        count,
        maxDays: MAX_FEED_DAYS,
      };
      let [outcome, now, last, rest, ...texts]: string[] = [];
      for (let from: string | undefined = "0"; texts.length === 0 && from; from = rest) {
        [outcome, now, last, rest, ...texts] = await client.ask("read-events", READ_EVENTS, { ...args, from });
      }
      if (outcome !== "events") {
        await client.confirmMissing();
        throw outcome === "gone" ? new EnvironmentNotFound() : new EventCursorExpired();
      }
      const events: FeedEvent[] = [];
      for (let i = 0; i < texts.length; i += EVENT_LENGTH + 1) {
        events.push(eventFrom([texts[i] as string, texts.slice(i + 1, i + 1 + EVENT_LENGTH)]));
      }
      const hasMore = rest !== "";
      const time = hasMore ? (events.at(-1) as FeedEvent).time : Number(now);
      return { events, next: { cursor: Number(last), cursorTime: time }, hasMore };
    },

    async list(environments, filter, { after, size }) {
      // `after` consists of the number of an environment and the id of the first event of the page.
      const [begin, position] = after === "" ? [] : after.split(".").map(Number);
      const kept = Math.max(Date.now() - audit.retentionMs, 0) * 1000;
      const oldest = Math.max(kept, (filter.from ?? 0) * 1000);
      const isFiltered = [filter.userGroupId, filter.actorId, filter.method].some((each) => each !== undefined);
      const count = isFiltered ? READ_FOR_FILTER / 2 : size + 1;
      const items: FeedEvent[] = [];
      let read = 0;
      /**
       * The id of the event with which the page must begin. Undefined on the first page, and after this event was
       * found.
       */
      let expected = position;
      const begun = begin === undefined ? 0 : environments.findIndex(({ number }) => number === begin);
      if (begun < 0) throw new InvalidPageToken();
      for (const [i, { number, createTime }] of environments.slice(begun).entries()) {
        const [version] = await client.run("list-audit-events", "hmget", [environmentKey(number), "version"]);
        // No event has a higher id than the version of its environment. A page token with a higher id must not make
        // this call read many days.
        const last = Number(version ?? 0);
        const newest = i === 0 && position !== undefined ? Math.min(position, last) : last;
        const end = Math.min(newest + 1, (filter.before ?? Number.POSITIVE_INFINITY) * 1000);
        const first = Math.max(dayOf(oldest / 1000), dayOf(createTime));
        const days = Array.from({ length: Math.max(dayOf(end / 1000) - first + 1, 0) }, (_, d) => first + d).reverse();
        const readOne = (day: number) => readDay(number, { day, oldest, end, count });
        for await (const batch of inBatches(days, DAYS_AT_ONCE, readOne)) {
          for (const { events, isWhole } of batch) {
            for (const [e, event] of events.entries()) {
              if (expected !== undefined && Number(event.id) !== expected) throw new AuditEventsExpired();
              expected = undefined;
              const next = `${number}.${event.id}`;
              // End the page before this event if enough events were read, or if older events of the day were not read.
              // The next page begins with this event.
              if (read++ === READ_FOR_FILTER || (!isWhole && e === events.length - 1)) return { items, next };
              if (!isWanted(event, filter)) continue;
              if (items.length === size) return { items, next };
              items.push(event);
            }
          }
        }
        if (expected !== undefined) throw new AuditEventsExpired();
      }
      return { items, next: undefined };
    },
  };
}

function isWanted(event: AuditEvent, { userGroupId, actorId, method }: AuditFilter): boolean {
  return (
    (userGroupId === undefined || event.userGroupId === userGroupId) &&
    (actorId === undefined || event.actorId === actorId) &&
    (method === undefined || event.method === method)
  );
}

type Entry = readonly [streamId: string, fields: readonly string[]];

/** Decodes an entry. @throws RecordUnreadable */
function eventFrom([streamId, fields]: Entry): FeedEvent {
  const [id = ""] = streamId.split("-");
  const record = recordFromFields(fields);
  const text = (field: string) => textOf(record, field, `the audit event ${id}`);
  const role = text(EVENT_FIELD.role);
  if (!isRole(role) && role !== "root" && role !== "service") {
    throw new RecordUnreadable(new Error(`the audit event ${id} has no known role`));
  }
  const subject = text(EVENT_FIELD.subject);
  const changedFields = text(EVENT_FIELD.changedFields);
  const event: AuditEvent = {
    id,
    time: Math.floor(Number(id) / 1000),
    actorId: text(EVENT_FIELD.actorId),
    actorName: text(EVENT_FIELD.actorName),
    role,
    method: text(EVENT_FIELD.method),
    changedFields: changedFields === "" ? [] : changedFields.split(","),
    requestId: text(EVENT_FIELD.requestId),
    peer: text(EVENT_FIELD.peer),
    ...resourceOf(subject),
  };
  return { ...event, type: eventTypeOf(event, subject.startsWith("c:")) };
}

/**
 * Parses the changed resource of an event. Scripts write an API token in the form `ID ROLE NAME`. `recordExport` writes
 * an export in the form `COUNT PREFIX`.
 */
function resourceOf(subject: string): Partial<AuditEvent> {
  const [kind, named] = [subject.slice(0, 2), subject.slice(2)];
  if (kind === "g:" || kind === "c:") return { userGroupId: named };
  if (kind === "w:") return { webhookId: named };
  const [first = "", ...words] = named.split(" ");
  if (kind === "x:") return { exported: { providedIdPrefix: words.join(" "), count: Number(first) } };
  const [role = "", ...name] = words;
  return kind === "t:" ? { apiTokenId: first, apiTokenRole: role, apiTokenDisplayName: name.join(" ") } : {};
}
