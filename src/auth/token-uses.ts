import type { ApiTokenStore } from "../domain/store.ts";

/** How long uses are collected before they are written, in milliseconds. */
const COLLECT_MS = 1000;

/** How many uses wait to be written; further ones are not noted. */
const MAX_WAITING = 10_000;

/** How many uses are written at once. */
const BATCH = 50;

/** Writes when API tokens were used, a little later, so that no call waits for it. */
export class TokenUses {
  readonly #store: Pick<ApiTokenStore, "noteUse">;
  readonly #waiting = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(store: Pick<ApiTokenStore, "noteUse">) {
    this.#store = store;
  }

  /** Notes that the API token with a digest is in use. */
  note(digest: string): void {
    if (this.#waiting.size >= MAX_WAITING) return;
    this.#waiting.add(digest);
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.flush(), COLLECT_MS);
    this.#timer.unref();
  }

  /** Writes what waits. When that fails, the rest is dropped: a later use will be noted. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const uses = [...this.#waiting];
    this.#waiting.clear();
    for (let start = 0; start < uses.length; start += BATCH) {
      const batch = uses.slice(start, start + BATCH);
      const written = await Promise.allSettled(batch.map((digest) => this.#store.noteUse(digest)));
      if (written.some(({ status }) => status === "rejected")) return;
    }
  }
}
