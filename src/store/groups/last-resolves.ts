import { DAY_MS } from "../../domain/durations.ts";
import type { Environment } from "../../domain/environment.ts";
import type { LastResolveNotes } from "../../domain/store.ts";
import type { Viewer } from "../../domain/user-group.ts";
import type { StoreClient } from "../connection/client.ts";
import { environmentKey, groupKey } from "../keys.ts";
import { NOTE_RESOLVES } from "../scripts.ts";

/** The time between the first note and the write of the notes, in milliseconds. */
const WRITE_AFTER_MS = 60_000;

/** The maximum number of waiting notes. If this number is reached, new notes are dropped. */
const MAX_NOTES = 5000;

/** The maximum number of groups per script. Such a script takes Redis less than a millisecond. */
const BATCH = 100;

/** The last resolve of a group. `args` are arguments of `NOTE_RESOLVES`. */
interface Note {
  readonly environment: number;
  readonly args: readonly [providedId: string, teamId: string, day: string];
}

/**
 * Records the day on which each group was last resolved. If the record of a resolved group contains an earlier day,
 * `note` adds a note. Notes are written once a minute. If Redis does not answer, the notes are dropped. The next
 * resolve of a group adds a dropped note again.
 */
export class LastResolves implements LastResolveNotes {
  readonly #client: Pick<StoreClient, "change">;
  readonly #notes = new Map<string, Note>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: Pick<StoreClient, "change">) {
    this.#client = client;
  }

  note({ number }: Environment, { teamId, providedId, lastResolveDay = 0 }: Viewer): void {
    const day = Math.floor(Date.now() / DAY_MS);
    if (lastResolveDay >= day || this.#notes.size >= MAX_NOTES) return;
    const args = [providedId, String(teamId), String(day)] as const;
    this.#notes.set(groupKey(number, providedId), { environment: number, args });
    this.#timer ??= setTimeout(() => void this.write(), WRITE_AFTER_MS).unref();
  }

  /** Writes all notes. Never rejects. */
  async write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const ofEnvironments = new Map<number, Note[]>();
    for (const note of this.#notes.values()) {
      const notes = ofEnvironments.get(note.environment) ?? [];
      notes.push(note);
      ofEnvironments.set(note.environment, notes);
    }
    this.#notes.clear();
    try {
      for (const [number, notes] of ofEnvironments) {
        for (let i = 0; i < notes.length; i += BATCH) {
          const extraArgs = notes.slice(i, i + BATCH).flatMap(({ args }) => args);
          await this.#client.change("note-resolves", NOTE_RESOLVES, { environment: environmentKey(number), extraArgs });
        }
      }
    } catch {
      // Drop the notes. The next resolve of each group adds its note again.
    }
  }
}
