import { setBounded } from "../bounded-map.ts";

/** How many are remembered; the one that was seen first makes room. */
const MAX_STRAYS = 1000;

/**
 * Entries of tokens that found nothing, and since when. One may be a claim that is about to be used, so that it is looked
 * at for a while before it is taken for left behind.
 */
export class StrayEntries {
  readonly #patienceMs: number;
  /** By when they were first seen, by `performance.now()`. */
  readonly #seen = new Map<string, number>();

  /** @param patienceMs for how long an entry has to find nothing, in milliseconds */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
  }

  /** Notes that an entry has found nothing; tells whether it was first seen to do so long enough ago. It is forgotten then. */
  isOld(entry: string): boolean {
    const now = performance.now();
    const since = this.#seen.get(entry);
    if (since === undefined) {
      setBounded(this.#seen, entry, now, MAX_STRAYS);
      return false;
    }
    if (now - since < this.#patienceMs) return false;
    this.#seen.delete(entry);
    return true;
  }
}
