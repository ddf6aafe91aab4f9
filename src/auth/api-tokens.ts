import { type ApiTokenKey, type ApiTokenStore, type RevocationListener, USE_INTERVAL_MS } from "../domain/api-token.ts";
import { setBounded } from "../domain/bounded.ts";
import { type Environment, environmentPath } from "../domain/environment.ts";
import { StoreUnavailable } from "../domain/errors.ts";
import type { Role } from "../domain/role.ts";
import { apiTokenDigest, environmentNumberOf, USER_GROUP_PREFIX } from "../domain/token.ts";

/** Who an authenticated caller is, for logs and for what it creates. None of it is secret. */
interface Identity {
  /** The id of its API token; `static-NAME` for the entry of that name in `API_TOKENS`, `root` for `ADMIN_TOKEN`. */
  readonly id: string;
  readonly displayName: string;
}

/** The bearer of an API token. A call acts on the environment that its token is bound to, and on no other. */
export interface BoundPrincipal extends Identity {
  readonly role: Role;
  readonly environment: Environment;
  /** When its API token ends, in milliseconds since 1970; undefined: it lasts until somebody ends it. */
  readonly expireTime: number | undefined;
  /**
   * Of a credential of the settings, which names its environment: looks for the environment again, after a call has found that
   * it is gone. Undefined: there is no other one. Rejects as `StaticToken.learn`.
   */
  readonly learnAgain?: () => Promise<BoundPrincipal | undefined>;
}

/** The bearer of `ADMIN_TOKEN`, which is bound to no environment. */
export const ROOT = {
  id: "root",
  displayName: "root",
  role: "root",
  environment: undefined,
  expireTime: undefined,
} as const satisfies Identity & { readonly [name in keyof BoundPrincipal]: unknown };

/** The authenticated caller. */
export type Principal = BoundPrincipal | typeof ROOT;

/** The principal of an API token; undefined when the token is unknown. */
export type Authenticated = Principal | undefined;

/** A credential of the settings, and its owner. */
export interface StaticToken {
  readonly token: string;
  /** Undefined while it is not known. */
  principal: Principal | undefined;
  /** Finds the owner. Rejects with StoreUnavailable, or EnvironmentNotFound when its environment is deleted. */
  readonly learn: () => Promise<Principal>;
}

/**
 * Authenticates API tokens: first those of the settings, then issued ones. Tokens are stored and compared as SHA-256
 * digests, so that the timing of a lookup reveals nothing about a token.
 */
export class ApiTokens {
  /** Undefined until the first `use`: nobody is authenticated before it. */
  #static: ReadonlyMap<string, StaticToken> | undefined;
  #staticLengths: ReadonlySet<number> = new Set();
  readonly #issued: IssuedTokens;

  constructor(issued: IssuedTokens) {
    this.#issued = issued;
  }

  /** Replaces the tokens of the settings: those that are not among them end at once. */
  use(tokens: readonly StaticToken[]): void {
    this.#static = new Map(tokens.map((each) => [apiTokenDigest(each.token), each]));
    this.#staticLengths = new Set(tokens.map(({ token }) => token.length));
  }

  /** Whether a text is a credential of the settings. Only a text of the length of one is hashed. */
  isOfSettings(text: string): boolean {
    return this.#staticLengths.has(text.length) && this.#static?.has(apiTokenDigest(text)) === true;
  }

  /** The owner of a credential of the settings; undefined when the text is no such credential. */
  ofSettings(token: string): Principal | undefined {
    return this.#static?.get(apiTokenDigest(token))?.principal;
  }

  /** Forgets the owners of the settings' API tokens for an environment, so that they are looked up again. */
  forget(environmentNumber: number): void {
    for (const each of this.#static?.values() ?? []) {
      if (each.principal?.environment?.number === environmentNumber) each.principal = undefined;
    }
  }

  /** Answers at once when it need not wait. Rejects with StoreUnavailable or RecordUnreadable. */
  authenticate(token: string): Authenticated | Promise<Authenticated> {
    if (!this.#static)
      return Promise.reject(new StoreUnavailable(new Error("not opened yet"), "not_made", "not_connected"));
    if (token.startsWith(USER_GROUP_PREFIX)) return undefined;
    const digest = apiTokenDigest(token);
    const fixed = this.#static.get(digest);
    if (fixed !== undefined) return fixed.principal ?? learned(fixed);
    const known = this.#issued.cached(digest);
    if (known !== undefined) return known;
    // Only a well-formed token can be an issued one, so any other text costs the store nothing.
    const number = environmentNumberOf(token);
    return number === undefined ? undefined : this.#issued.look({ number, digest });
  }
}

async function learned(fixed: StaticToken): Promise<Principal> {
  fixed.principal = await fixed.learn();
  return fixed.principal;
}

/** How many API tokens are cached, and how many digests of unknown ones. A worker serves far fewer of the former. */
const MAX_CACHED = 10_000;

/** How many API tokens `endingFirst` gives at most. */
const MAX_ENDING = 100;

/** A cached API token. Times are of `performance.now()`. */
interface Entry {
  readonly principal: BoundPrincipal;
  /** When it must be read again. */
  readonly until: number;
  /** When its use is to be noted next. */
  noteAt: number;
}

/** What issued tokens are authenticated with. */
interface IssuedTokensDeps {
  readonly store: Pick<ApiTokenStore, "find">;
  readonly uses: Pick<TokenUses, "note">;
  /** Called before a token counts as unknown. Rejects when the store may have lost it. Default: it never does. */
  readonly confirmMissing?: () => Promise<void>;
  /** How long an answer of the store is believed, in milliseconds; 0: it is asked for each call. */
  readonly cacheMs: number;
}

/**
 * Authenticates issued API tokens by their digests. What the store answers is believed for `cacheMs` from when it was
 * asked, unless a revocation comes first; unknown tokens are cached as well, apart from the known ones, so that guesses
 * push no known one out.
 */
export class IssuedTokens implements RevocationListener {
  readonly #deps: IssuedTokensDeps;
  readonly #known = new Map<string, Entry>();
  /** Digests of unknown tokens, and until when they are not asked for again. */
  readonly #unknown = new Map<string, number>();
  /** Reads of the store that are under way. A revocation takes out those that may be out of date. */
  readonly #readings = new Map<string, Promise<Authenticated>>();

  constructor(deps: IssuedTokensDeps) {
    this.#deps = deps;
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
  look(key: ApiTokenKey): Authenticated | Promise<Authenticated> {
    const { digest } = key;
    const until = this.#unknown.get(digest);
    if (until !== undefined && performance.now() < until) return undefined;
    // With `cacheMs` 0 no call joins a read that began before it.
    const reading = this.#deps.cacheMs === 0 ? undefined : this.#readings.get(digest);
    return reading ?? this.#share(key);
  }

  /** For each environment the API token that ends first, of those used here; at most the 100 that end soonest. */
  endingFirst(): BoundPrincipal[] {
    const found = new Map<string, BoundPrincipal>();
    const now = Date.now();
    for (const { principal } of this.#known.values()) {
      if (endOf(principal) <= now || endOf(principal) === Number.POSITIVE_INFINITY) continue;
      const path = environmentPath(principal.environment);
      const before = found.get(path);
      if (!before || endOf(principal) < endOf(before)) found.set(path, principal);
    }
    return [...found.values()].sort((one, other) => endOf(one) - endOf(other)).slice(0, MAX_ENDING);
  }

  revoked(digest: string): void {
    this.#known.delete(digest);
    this.#readings.delete(digest);
  }

  environmentDeleted({ number }: Environment): void {
    for (const [digest, { principal }] of this.#known)
      if (principal.environment.number === number) this.#known.delete(digest);
    this.#readings.clear();
  }

  missed(): void {
    this.#known.clear();
    this.#readings.clear();
  }

  #share(key: ApiTokenKey): Promise<Authenticated> {
    const { digest } = key;
    const isFresh = () => this.#readings.get(digest) === reading;
    const reading = this.#read(key, isFresh).finally(() => {
      if (isFresh()) this.#readings.delete(digest);
    });
    this.#readings.set(digest, reading);
    return reading;
  }

  /** @param isFresh whether no revocation came since the read began */
  async #read(key: ApiTokenKey, isFresh: () => boolean): Promise<Authenticated> {
    const { digest } = key;
    const asked = performance.now();
    const found = await this.#deps.store.find(key);
    const until = asked + this.#deps.cacheMs;
    if (!found) {
      await this.#deps.confirmMissing?.();
      this.#known.delete(digest);
      if (isFresh()) setBounded(this.#unknown, digest, until, MAX_CACHED);
      return undefined;
    }
    const { id, displayName, role, expireTime } = found.apiToken;
    const entry: Entry = {
      principal: { id, displayName, role, environment: found.environment, expireTime },
      until: Math.min(until, asked + found.expiresInMs),
      noteAt: asked + USE_INTERVAL_MS - found.unusedForMs,
    };
    if (asked >= entry.noteAt) this.#note(digest, entry, asked);
    if (isFresh()) setBounded(this.#known, digest, entry, MAX_CACHED);
    return entry.principal;
  }

  #note(digest: string, entry: Entry, now: number): void {
    entry.noteAt = now + USE_INTERVAL_MS;
    this.#deps.uses.note({ number: entry.principal.environment.number, digest });
  }
}

/** When an API token ends, in milliseconds since 1970; Infinity: it lasts. */
function endOf({ expireTime = Number.POSITIVE_INFINITY }: BoundPrincipal): number {
  return expireTime;
}

/** How long uses are collected before they are written, in milliseconds. */
const COLLECT_MS = 1000;

/** How many uses wait to be written; further ones are not noted. */
const MAX_WAITING = 10_000;

/** How many uses are written at once. */
const BATCH = 50;

/** Writes when API tokens were used, a little later, so that no call waits for it. */
export class TokenUses {
  readonly #store: Pick<ApiTokenStore, "noteUse">;
  /** By their digests. */
  readonly #waiting = new Map<string, ApiTokenKey>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(store: Pick<ApiTokenStore, "noteUse">) {
    this.#store = store;
  }

  /** Notes that an API token is in use. */
  note(key: ApiTokenKey): void {
    if (this.#waiting.size >= MAX_WAITING) return;
    this.#waiting.set(key.digest, key);
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
      const written = await Promise.allSettled(batch.map((key) => this.#store.noteUse(key)));
      if (written.some(({ status }) => status === "rejected")) return;
    }
  }
}
