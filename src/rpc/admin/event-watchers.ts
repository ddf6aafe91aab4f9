import { setTimeout } from "node:timers/promises";
import { MAX_WATCHERS } from "../../domain/capacity.ts";
import type { Environment } from "../../domain/environment.ts";
import { TooManyWatchers } from "../../domain/errors.ts";
import type { EventPage, EventPosition } from "../../domain/events.ts";
import type { EventStore } from "../../domain/store.ts";

/** The interval at which a worker queries the store for new events, in milliseconds. */
export const POLL_MS = 500;

/** The maximum number of events per page. A stream holds one page in memory. Redis reads 250 events in 1.2 ms. */
export const EVENTS_PAGE = 200;

/**
 * Limits the number of event streams of this worker, and reads new events for the streams. Streams that wait at the
 * same position share one read every `POLL_MS`. If `hasMore` of a page is true, a stream reads the next page without
 * `EventWatchers`.
 */
export class EventWatchers {
  readonly #store: EventStore;
  /** An entry for each open stream. */
  readonly #streams = new Set<{ readonly number: number }>();
  /** The scheduled reads, by environment and position. */
  readonly #reads = new Map<string, Promise<EventPage>>();

  constructor(store: EventStore) {
    this.#store = store;
  }

  /** Counts a stream until the caller calls the returned function. @throws TooManyWatchers */
  enter({ number }: Environment): () => void {
    const count = [...this.#streams].filter((each) => each.number === number).length;
    if (count >= MAX_WATCHERS.environment) throw new TooManyWatchers(MAX_WATCHERS.environment, "the environment");
    if (this.#streams.size >= MAX_WATCHERS.worker) throw new TooManyWatchers(MAX_WATCHERS.worker, "the worker");
    const stream = { number };
    this.#streams.add(stream);
    return () => void this.#streams.delete(stream);
  }

  /**
   * Reads the events after the position. The read begins `POLL_MS` after the first call with the position. Calls with
   * the same position in the meantime receive the same result. Rejects with the errors of the store.
   */
  next(environment: Environment, position: EventPosition): Promise<EventPage> {
    const key = `${environment.number} ${position.cursor}`;
    const known = this.#reads.get(key);
    if (known) return known;
    const read = setTimeout(POLL_MS).then(() => {
      this.#reads.delete(key);
      return this.#store.readEvents(environment, position, EVENTS_PAGE);
    });
    this.#reads.set(key, read);
    return read;
  }
}
