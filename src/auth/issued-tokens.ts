import { setBounded } from "../bounded-map.ts";
import type { ValidApiToken } from "../domain/api-token.ts";
import { type ApiTokenStore, type RevocationListener, USE_INTERVAL_MS } from "../domain/store.ts";
import type { Authenticated, BoundPrincipal } from "./authenticator.ts";
import type { TokenUses } from "./token-uses.ts";

/** How many API tokens are cached, and how many digests of unknown ones. A worker serves far fewer of the former. */
const MAX_CACHED = 10_000;

/** A cached API token. Times are of `performance.now()`. */
interface Entry {
  readonly principal: BoundPrincipal;
  /** When it must be read again. */
  readonly until: number;
  /** When its use is to be noted next. */
  noteAt: number;
}

/** A read of the store that is under way, and whether a revocation came meanwhile, so that it may be out of date. */
interface Reading {
  readonly answer: Promise<Authenticated>;
  isStale: boolean;
}

/** What issued tokens are authenticated with. */
export interface IssuedTokensParts {
  readonly store: Pick<ApiTokenStore, "find">;
  readonly uses: Pick<TokenUses, "note">;
  /** How long an answer of the store is believed, in milliseconds; 0: it is asked for each call. */
  readonly cacheMs: number;
}

/**
 * Authenticates issued API tokens by their digests. What the store answers is believed for `cacheMs` from when it was
 * asked, unless a revocation comes first; unknown tokens are cached as well, apart from the known ones, so that guesses
 * push no known one out.
 */
export class IssuedTokens implements RevocationListener {
  readonly #parts: IssuedTokensParts;
  readonly #known = new Map<string, Entry>();
  /** Digests of unknown tokens, and until when they are not asked for again. */
  readonly #unknown = new Map<string, number>();
  readonly #readings = new Map<string, Reading>();

  constructor(parts: IssuedTokensParts) {
    this.#parts = parts;
  }

  /** The principal of a cached API token; undefined when the store has to be asked. */
  cached(digest: string): BoundPrincipal | undefined {
    const entry = this.#known.get(digest);
    if (entry === undefined) return undefined;
    const now = performance.now();
    if (now >= entry.until) return undefined;
    if (now >= entry.noteAt) this.#note(digest, entry, now);
    return entry.principal;
  }

  /** The principal of an API token that is not cached; concurrent calls share one read. Rejects as the store does. */
  look(digest: string): Authenticated | Promise<Authenticated> {
    const until = this.#unknown.get(digest);
    if (until !== undefined && performance.now() < until) return undefined;
    // A read that began before this call may be older than the call, which is too old where nothing may be cached.
    const reading = this.#parts.cacheMs === 0 ? undefined : this.#readings.get(digest);
    return reading ? reading.answer : this.#share(digest);
  }

  revoked(digest: string): void {
    this.#known.delete(digest);
    const reading = this.#readings.get(digest);
    if (!reading) return;
    reading.isStale = true;
    this.#readings.delete(digest);
  }

  missed(): void {
    this.#known.clear();
    for (const reading of this.#readings.values()) reading.isStale = true;
    this.#readings.clear();
  }

  #share(digest: string): Promise<Authenticated> {
    const reading: Reading = {
      isStale: false,
      answer: this.#read(digest, () => !reading.isStale).finally(() => {
        if (this.#readings.get(digest) === reading) this.#readings.delete(digest);
      }),
    };
    this.#readings.set(digest, reading);
    return reading.answer;
  }

  /** @param isFresh whether no revocation came since the read began */
  async #read(digest: string, isFresh: () => boolean): Promise<Authenticated> {
    const asked = performance.now();
    const found = await this.#parts.store.find(digest);
    const until = asked + this.#parts.cacheMs;
    if (!found) {
      this.#known.delete(digest);
      if (isFresh()) setBounded(this.#unknown, digest, until, MAX_CACHED);
      return undefined;
    }
    const entry: Entry = {
      principal: principalOf(found),
      until: Math.min(until, asked + found.expiresInMs),
      noteAt: asked + USE_INTERVAL_MS - found.unusedForMs,
    };
    if (asked >= entry.noteAt) this.#note(digest, entry, asked);
    if (isFresh()) setBounded(this.#known, digest, entry, MAX_CACHED);
    return entry.principal;
  }

  #note(digest: string, entry: Entry, now: number): void {
    entry.noteAt = now + USE_INTERVAL_MS;
    this.#parts.uses.note(digest);
  }
}

function principalOf({ apiToken: { id, displayName, role, expireTime }, environment }: ValidApiToken): BoundPrincipal {
  return { id, displayName, role, environment, expireTime };
}
