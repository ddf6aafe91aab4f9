import { type ApiTokenKey, type ApiTokenStore, type RevocationListener, USE_INTERVAL_MS } from "../domain/api-token.ts";
import { setBounded } from "../domain/bounded.ts";
import { type Environment, environmentPath } from "../domain/environment.ts";
import { StoreUnavailable } from "../domain/errors.ts";
import type { Role } from "../domain/role.ts";
import { apiTokenDigest, environmentNumberOf, USER_GROUP_PREFIX } from "../domain/token.ts";

/** A caller with an API token. The caller can act only on the environment of the token. No field is secret. */
export interface BoundPrincipal {
  /**
   * The id of an issued API token. For a token in `API_TOKENS`, this is `static-NAME`, or `static-DIGEST` if the token
   * has no name.
   */
  readonly id: string;
  readonly displayName: string;
  readonly role: Role;
  readonly environment: Environment;
  /** The expiry time of the API token, in milliseconds since 1970. Undefined if the API token does not expire. */
  readonly expireTime: number | undefined;
}

/** The caller with `ADMIN_TOKEN`. This token has no environment. */
export const ROOT = {
  id: "root",
  displayName: "root",
  role: "root",
  environment: undefined,
  expireTime: undefined,
} as const satisfies { readonly [name in keyof BoundPrincipal]: unknown };

export type Principal = BoundPrincipal | typeof ROOT;

export type Authenticated = Principal | undefined;

export interface StaticToken {
  readonly token: string;
  /** The cached principal of the token. Undefined until `lookUp` has found the principal, and after `forget`. */
  principal: Principal | undefined;
  /**
   * Finds the principal. Rejects with StoreUnavailable if the store fails, and with EnvironmentNotFound if the
   * environment is deleted.
   */
  readonly lookUp: () => Promise<Principal>;
}

/**
 * Authenticates API tokens. A token is either a token of the settings (`API_TOKENS` and `ADMIN_TOKEN`), or an issued
 * token, which is in the store. Tokens are compared by SHA-256 digests, so that the duration of a lookup reveals
 * nothing about a token.
 */
export class ApiTokens {
  /** The tokens of the settings, by digest. Undefined until the first call of `use`. */
  #static: ReadonlyMap<string, StaticToken> | undefined;
  #staticLengths: ReadonlySet<number> = new Set();
  readonly #issued: IssuedTokens;

  constructor(issued: IssuedTokens) {
    this.#issued = issued;
  }

  /** Replaces the tokens of the settings. Removed tokens become invalid immediately. */
  use(tokens: readonly StaticToken[]): void {
    this.#static = new Map(tokens.map((each) => [apiTokenDigest(each.token), each]));
    this.#staticLengths = new Set(tokens.map(({ token }) => token.length));
  }

  /**
   * Returns whether a string is a token of the settings. Hashes the string only if a token of the settings has the same
   * length as the string.
   */
  isOfSettings(text: string): boolean {
    return this.#staticLengths.has(text.length) && this.#static?.has(apiTokenDigest(text)) === true;
  }

  /**
   * Returns the cached principal of a token of the settings. Returns undefined if the token is not a token of the
   * settings, or if its principal is not cached.
   */
  ofSettings(token: string): Principal | undefined {
    return this.#static?.get(apiTokenDigest(token))?.principal;
  }

  /** The environments of all cached principals of tokens of the settings. */
  get environments(): readonly Environment[] {
    const tokens = [...(this.#static?.values() ?? [])];
    const found = tokens.flatMap(({ principal }) => principal?.environment ?? []);
    return [...new Map(found.map((environment) => [environment.number, environment])).values()];
  }

  /**
   * Removes the cached principals of all tokens of the settings that belong to an environment.
   *
   * @returns whether a principal was cached
   */
  forget(environmentNumber: number): boolean {
    let wasCached = false;
    for (const each of this.#static?.values() ?? []) {
      if (each.principal?.environment?.number !== environmentNumber) continue;
      each.principal = undefined;
      wasCached = true;
    }
    return wasCached;
  }

  /** Returns the cached principal of a token, even if the token or its cache entry has expired. */
  lastOwner(token: string): Principal | undefined {
    const digest = apiTokenDigest(token);
    return this.#static?.get(digest)?.principal ?? this.#issued.lastOwner(digest);
  }

  /**
   * Returns the principal of a token, or undefined if the token is unknown. Returns a promise only if the store must be
   * read, or if `use` has not been called yet. The promise can reject with StoreUnavailable or RecordUnreadable. If a
   * token of the settings belongs to a deleted environment, the promise rejects with EnvironmentNotFound.
   */
  authenticate(token: string): Authenticated | Promise<Authenticated> {
    if (!this.#static)
      return Promise.reject(new StoreUnavailable(new Error("not opened yet"), "not_made", "not_connected"));
    if (token.startsWith(USER_GROUP_PREFIX)) return undefined;
    const digest = apiTokenDigest(token);
    const fixed = this.#static.get(digest);
    if (fixed !== undefined) return fixed.principal ?? lookUpPrincipal(fixed);
    const known = this.#issued.cached(digest);
    if (known !== undefined) return known;
    // A malformed token is never an issued token, so the store need not be read.
    const number = environmentNumberOf(token);
    return number === undefined ? undefined : this.#issued.find({ number, digest });
  }
}

async function lookUpPrincipal(fixed: StaticToken): Promise<Principal> {
  fixed.principal = await fixed.lookUp();
  return fixed.principal;
}

/** The maximum number of cached API tokens. The cache of unknown tokens has the same maximum. */
const MAX_CACHED = 10_000;

const MAX_EXPIRING = 100;

/** A cached API token. Times are by `performance.now()`. */
interface Entry {
  readonly principal: BoundPrincipal;
  /** From this time, `cached` no longer returns the principal. */
  readonly until: number;
  /** The time from which the next use of the API token is written to the store. */
  noteAt: number;
}

interface IssuedTokensDeps {
  readonly store: Pick<ApiTokenStore, "find" | "noteUse">;
  /**
   * Called if the store does not find a token. Rejects if the store may have lost data, because the lost data may
   * contain the token. Default: never rejects.
   */
  readonly confirmMissing?: () => Promise<void>;
  /** The maximum age of a cached result of the store, in milliseconds. 0 disables the cache. */
  readonly cacheMs: number;
}

/**
 * Authenticates issued API tokens by their digests. Caches each result of the store for at most `cacheMs`. The cached
 * result becomes invalid when the token expires or is revoked. Unknown tokens have a separate cache, so that guessed
 * tokens do not evict valid tokens.
 */
export class IssuedTokens implements RevocationListener {
  readonly #deps: IssuedTokensDeps;
  readonly #known = new Map<string, Entry>();
  /** The digest of each unknown token, and the time from which `find` reads the store again for this digest. */
  readonly #unknown = new Map<string, number>();
  /** The reads in flight, by digest. A revocation removes each read whose result may be older than the revocation. */
  readonly #readings = new Map<string, Promise<Authenticated>>();

  constructor(deps: IssuedTokensDeps) {
    this.#deps = deps;
  }

  /** Returns the principal of a cached API token. Undefined if the store must be read. */
  cached(digest: string): BoundPrincipal | undefined {
    const entry = this.#known.get(digest);
    if (entry === undefined) return undefined;
    const now = performance.now();
    if (now >= entry.until) return undefined;
    if (now >= entry.noteAt) this.#note(entry, now);
    return entry.principal;
  }

  /** Returns the principal of a cached API token, even if the token or its cache entry has expired. */
  lastOwner(digest: string): BoundPrincipal | undefined {
    return this.#known.get(digest)?.principal;
  }

  /**
   * Finds the principal of an API token that `cached` did not return. Returns undefined if the token is unknown.
   * Concurrent calls for the same token share a read. Rejects with the error of the store, or of `confirmMissing`.
   */
  find(key: ApiTokenKey): Authenticated | Promise<Authenticated> {
    const { digest } = key;
    const until = this.#unknown.get(digest);
    if (until !== undefined && performance.now() < until) return undefined;
    // If `cacheMs` is 0, every call reads the store.
    const shared = this.#deps.cacheMs === 0 ? undefined : this.#readings.get(digest);
    if (shared) return shared;
    const isFresh = () => this.#readings.get(digest) === reading;
    const reading = this.#read(key, isFresh).finally(() => {
      if (isFresh()) this.#readings.delete(digest);
    });
    this.#readings.set(digest, reading);
    return reading;
  }

  /**
   * Returns, for each environment, the cached API token with the earliest expiry time. Returns at most 100 API tokens,
   * ordered by expiry time.
   */
  expiringFirst(): BoundPrincipal[] {
    const found = new Map<string, BoundPrincipal>();
    const now = Date.now();
    for (const { principal } of this.#known.values()) {
      if (expiryOf(principal) <= now || expiryOf(principal) === Number.POSITIVE_INFINITY) continue;
      const path = environmentPath(principal.environment);
      const before = found.get(path);
      if (!before || expiryOf(principal) < expiryOf(before)) found.set(path, principal);
    }
    return [...found.values()].sort((one, other) => expiryOf(one) - expiryOf(other)).slice(0, MAX_EXPIRING);
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

  /** @param isFresh returns false if a revocation arrived after the read began. If false, the result is not cached */
  async #read(key: ApiTokenKey, isFresh: () => boolean): Promise<Authenticated> {
    const { digest } = key;
    const started = performance.now();
    const found = await this.#deps.store.find(key);
    const until = started + this.#deps.cacheMs;
    if (!found) {
      await this.#deps.confirmMissing?.();
      this.#known.delete(digest);
      if (isFresh()) setBounded(this.#unknown, digest, until, MAX_CACHED);
      return undefined;
    }
    const { id, displayName, role, expireTime } = found.apiToken;
    const entry: Entry = {
      principal: { id, displayName, role, environment: found.environment, expireTime },
      until: Math.min(until, started + found.expiresInMs),
      noteAt: started + USE_INTERVAL_MS - found.unusedForMs,
    };
    if (started >= entry.noteAt) this.#note(entry, started);
    if (isFresh()) setBounded(this.#known, digest, entry, MAX_CACHED);
    return entry.principal;
  }

  /**
   * Writes the use of a token to the store in the background. Even if the write fails, the next write is at least
   * `USE_INTERVAL_MS` later.
   */
  #note(entry: Entry, now: number): void {
    entry.noteAt = now + USE_INTERVAL_MS;
    this.#deps.store.noteUse(entry.principal.environment, entry.principal.id).catch(() => {});
  }
}

function expiryOf({ expireTime = Number.POSITIVE_INFINITY }: BoundPrincipal): number {
  return expireTime;
}
