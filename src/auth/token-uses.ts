import { environmentPath } from "../domain/environment.ts";
import type { ApiTokenStore } from "../domain/store.ts";
import type { BoundPrincipal } from "./authenticator.ts";

/** How long uses are collected before they are written, in milliseconds. */
const COLLECT_MS = 1000;

/** How many uses wait to be written; further ones are not noted. */
const MAX_WAITING = 10_000;

/** How many uses are written at once. */
const BATCH = 50;

/** Writes when API tokens were used, a little later, so that no call waits for it. */
export class TokenUses {
  readonly #store: Pick<ApiTokenStore, "noteUse">;
  readonly #waiting = new Map<string, BoundPrincipal>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(store: Pick<ApiTokenStore, "noteUse">) {
    this.#store = store;
  }

  /** Notes that an API token is in use. */
  note(principal: BoundPrincipal): void {
    if (this.#waiting.size >= MAX_WAITING) return;
    this.#waiting.set(`${environmentPath(principal.environment)}/${principal.id}`, principal);
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.flush(), COLLECT_MS);
    this.#timer.unref();
  }

  /** Writes what waits. When that fails, the rest is dropped: a later use will be noted. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const uses = [...this.#waiting.values()];
    this.#waiting.clear();
    for (let start = 0; start < uses.length; start += BATCH) {
      const batch = uses.slice(start, start + BATCH);
      const written = await Promise.allSettled(
        batch.map(({ environment, id }) => this.#store.noteUse(environment, id)),
      );
      if (written.some(({ status }) => status === "rejected")) return;
    }
  }
}
