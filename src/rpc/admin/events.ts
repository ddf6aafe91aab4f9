import {
  WatchEventsRequest_Start as Start,
  type WatchEventsRequest,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { STREAMS } from "../../domain/capacity.ts";
import { EventCursorExpired } from "../../domain/errors.ts";
import { type EventCursor, formatCursor, parseCursor, positionAfter } from "../../domain/events.ts";
import { authorizeAgain } from "../access.ts";
import { callOf } from "../call-context.ts";
import { invalidField } from "../errors.ts";
import { suspensionMessage } from "../messages.ts";
import { EVENTS_PAGE, EventWatchers, POLL_MS } from "./event-watchers.ts";
import { eventMessage } from "./messages.ts";
import { type AdminDeps, type AdminRpcs, targetOf } from "./requests.ts";

/**
 * The time after which a silent stream sends an empty response, in milliseconds. Many proxies end a stream that is
 * silent for a minute.
 */
const HEARTBEAT_MS = 15_000;

/**
 * The lifetime of a stream, in milliseconds. The lifetime is shorter than the limit of the transport, so that the
 * stream ends with success before the transport ends it with an error.
 */
const LIFETIME_MS = STREAMS.lifetimeMs - 30_000;

const SNAPSHOT_PAGE = 500;

export function eventRpcs({ environments, authenticator, auditTrail, userGroupAdmin }: AdminDeps) {
  const watchers = new EventWatchers(auditTrail);
  return {
    async *watchEvents(request, { values, signal, method }) {
      const call = callOf(values);
      const given = cursorOf(request);
      const environment = await targetOf(environments, call, request.environment);
      const { number } = environment;
      if (given && given.number !== number) throw new EventCursorExpired();
      const time = request.start === Start.BEGINNING ? 0 : Number.POSITIVE_INFINITY;
      const until = performance.now() + LIFETIME_MS;
      let checked = performance.now();
      /** Returns whether the stream continues. Checks the API token at most once per `POLL_MS`. */
      const isOpen = async () => {
        const now = performance.now();
        if (now - checked >= POLL_MS) {
          await authorizeAgain(authenticator, call, method);
          checked = now;
        }
        return !signal.aborted && now < until;
      };
      const leave = watchers.enter(environment);
      try {
        const start = given ?? { cursor: time, cursorTime: undefined };
        let page = await auditTrail.readEvents(environment, start, EVENTS_PAGE);
        const first = given ?? page.next;
        let snapshotAfter = request.start === Start.SNAPSHOT ? "" : given?.snapshotAfter;
        while (snapshotAfter !== undefined && (await isOpen())) {
          const range = { prefix: "", nameContains: "", after: snapshotAfter, size: SNAPSHOT_PAGE };
          const { items, next } = await userGroupAdmin.list(environment, range);
          const userGroups = items.map(({ providedId, etag, suspension }) => ({
            userGroupId: providedId,
            etag,
            suspension: suspensionMessage(suspension),
          }));
          const cursor = formatCursor({ ...first, number, snapshotAfter: next });
          yield { cursor, content: { case: "snapshot" as const, value: { userGroups, complete: next === undefined } } };
          snapshotAfter = next;
        }
        for (let sent = performance.now(), isBehind = true; await isOpen(); ) {
          for (const event of page.events) {
            if (!(await isOpen())) return;
            const cursor = formatCursor({ ...positionAfter(event), number });
            yield { cursor, content: { case: "event" as const, value: eventMessage(event) } };
            sent = performance.now();
          }
          if (performance.now() - sent >= HEARTBEAT_MS || (isBehind && !page.hasMore)) {
            yield { cursor: formatCursor({ ...page.next, number }) };
            sent = performance.now();
            isBehind &&= page.hasMore;
          }
          page = page.hasMore
            ? await auditTrail.readEvents(environment, page.next, EVENTS_PAGE)
            : await watchers.next(environment, page.next);
        }
      } finally {
        leave();
      }
    },
  } satisfies Partial<AdminRpcs>;
}

/** Returns the cursor of a request. Undefined if the request has no cursor. @throws ConnectError InvalidArgument */
function cursorOf({ cursor, start }: WatchEventsRequest): EventCursor | undefined {
  if (cursor === "") return undefined;
  if (start !== Start.UNSPECIFIED) throw invalidField("cursor", "must be empty if start is set");
  const parsed = parseCursor(cursor);
  if (!parsed) throw invalidField("cursor", "must be the cursor of a response of WatchEvents, unchanged");
  return parsed;
}
