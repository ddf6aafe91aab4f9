import type { ChangeBy } from "../domain/audit.ts";
import { setBounded } from "../domain/bounded.ts";
import { type Environment, type EnvironmentName, environmentPath } from "../domain/environment.ts";
import { RecordUnreadable, SigningKeysChanged } from "../domain/errors.ts";
import { IN_TIME, type SigningKey, type SigningKeySet, type SigningKeyStore } from "../domain/viewer-session.ts";
import { nextKeySet, statesOf } from "./keys.ts";
import { newKeyId } from "./session.ts";
import { importKey, newKeyPair } from "./signing.ts";

/** How old what is known of an environment's keys may be when it is used, in milliseconds. */
const FRESH_MS = 120_000;

/** How often the keys of environments in use are read again, in milliseconds: often enough that no call has to. */
const REFRESH_MS = 45_000;

/** How long an environment counts as in use, in milliseconds. */
const IN_USE_MS = 900_000;

/** How many environments' keys are kept. */
const MAX_KNOWN = 10_000;

/** How long it is remembered that an environment has no keys, and which environments there are, in milliseconds. */
const ABSENT_MS = 10_000;

/**
 * How many environments that are not listed are read in this time. The list is a hint: a failover may lose an entry. Guesses
 * beyond this number are not read.
 */
const MAX_UNLISTED = 100;

/** How often a change of keys is tried while other workers change them. */
const TRIES = 5;

/** A key at a time, and what becomes of it. */
export type SigningKeyAt = ReturnType<typeof statesOf<SigningKey>>[number];

type ImportedKey = ReturnType<typeof importKey>;

/** The keys of an environment as a worker knows them. Times are of `performance.now()`. */
class KnownKeys {
  readonly environment: Environment;
  readonly set: SigningKeySet;
  readonly readAt = performance.now();
  usedAt = performance.now();
  readonly #publicKeys = new Map<string, ImportedKey>();
  readonly #privateKeys = new Map<string, ImportedKey>();

  constructor(environment: Environment, set: SigningKeySet) {
    this.environment = environment;
    this.set = set;
  }

  /** The key that signs now. @throws RecordUnreadable when it cannot be decrypted */
  signing() {
    // By the store's clock, as those who change the keys see it.
    const now = this.set.now + (performance.now() - this.readAt);
    const { key } = statesOf(this.set.keys, now).find(({ state }) => state === "active") ?? {};
    if (!key) throw new TypeError("an environment has no signing key");
    const { kid, x, y, d } = key;
    if (d === undefined) throw new RecordUnreadable(new Error(`the signing key ${kid} cannot be decrypted`));
    return { kid, key: imported(this.#privateKeys, kid, { x, y, d }) };
  }

  /** The key with an id that may have signed a session; undefined: there is none. */
  readonly keyOf = (kid: string): ImportedKey | undefined => {
    const key = this.set.keys.find((each) => each.kid === kid);
    return key && imported(this.#publicKeys, kid, { x: key.x, y: key.y });
  };
}

function imported(known: Map<string, ImportedKey>, kid: string, key: Parameters<typeof importKey>[0]): ImportedKey {
  const found = known.get(kid) ?? importKey(key);
  known.set(kid, found);
  return found;
}

/** The keys of an environment that were read to be published. */
interface Published {
  /** Undefined: they were not read, because there are too many guesses. */
  readonly reading: Promise<SigningKeySet | undefined>;
  /** Undefined while they are read. */
  set: SigningKeySet | undefined;
  readAt: number;
}

/** The environments that there are. */
interface Listed {
  readonly paths: Promise<ReadonlySet<string>>;
  readonly readAt: number;
  /** How many others may still be read. */
  unlistedLeft: number;
}

/** What signing keys are used with. */
interface SigningKeysDeps {
  readonly store: SigningKeyStore;
  /** The maximum age of cached keys while this process is not subscribed to the changes of other workers, in milliseconds. */
  readonly unsubscribedMs: number;
  /** Told when keys could not be changed though it was time; it is tried again within a minute. */
  readonly onOverdue: (error: unknown) => void;
}

/**
 * The signing keys of environments: those in use are kept in memory, read again every now and then, and changed when it is
 * time, by whichever worker is first.
 */
export class SigningKeys {
  readonly #deps: SigningKeysDeps;
  readonly #known = new Map<string, KnownKeys>();
  /** Reads that are under way. A change of the keys takes out those that may be out of date. */
  readonly #readings = new Map<string, Promise<KnownKeys>>();
  /** Keys that were read to be published, of environments that are not in use here. */
  readonly #published = new Map<string, Published>();
  #listed: Listed | undefined;
  readonly #refreshing: ReturnType<typeof setInterval>;
  /** The maximum age of cached keys when they are used, in milliseconds. */
  #freshMs = FRESH_MS;

  constructor(deps: SigningKeysDeps) {
    this.#deps = deps;
    this.#refreshing = setInterval(() => this.#refresh(), REFRESH_MS).unref();
  }

  close(): void {
    clearInterval(this.#refreshing);
  }

  /** Sets whether this process is subscribed to the changes of other workers. Default: it is. */
  setSubscribed(isSubscribed: boolean): void {
    this.#freshMs = isSubscribed ? FRESH_MS : Math.min(FRESH_MS, this.#deps.unsubscribedMs);
  }

  /** Drops what is known of an environment's keys, by its path, or of all. */
  forget(path?: string): void {
    for (const map of [this.#known, this.#readings, this.#published]) {
      if (path === undefined) map.clear();
      else map.delete(path);
    }
    // The environment may be new.
    this.#listed = undefined;
  }

  /**
   * The keys that check sessions of an environment. Rejects as the store does.
   *
   * @param kid a key that has to be among them. If it is not, the keys are read again, once for all callers who wait. So an
   *   unknown key costs Redis no more than an unknown token
   */
  async checking(environment: Environment, kid?: string): Promise<Pick<KnownKeys, "keyOf">> {
    const known = await this.#find(environment);
    if (kid === undefined || known.keyOf(kid)) return known;
    return this.#readings.get(environmentPath(environment)) ?? this.#read(environment);
  }

  /** The key that signs sessions of an environment, which is made if there is none. Rejects as the store does. */
  async signing(environment: Environment): Promise<ReturnType<KnownKeys["signing"]>> {
    let known = await this.#find(environment);
    if (known.set.keys.length === 0) {
      await this.#change(environment, known.set, "maintain", IN_TIME);
      // Another worker may have changed them again before this answer came.
      known = await this.#read(environment);
    }
    return known.signing();
  }

  /**
   * The keys that are published of an environment; there may be none. They may be as old as those in memory.
   *
   * Unauthenticated clients may ask for any name. Keys that exist are never refused, so the number of reads is bounded
   * instead: one for each environment, one for the list of environments, and a few for names that are not listed.
   *
   * @param onWait called before the caller has to wait for the store. If it throws, the store is not read for this caller
   * @throws as `onWait`; rejects as the store does
   */
  async published(environment: EnvironmentName, onWait: () => void): Promise<readonly SigningKey[]> {
    const path = environmentPath(environment);
    const known = this.#known.get(path);
    if (known && performance.now() - known.readAt <= this.#freshMs) return publishedOf(known.set);
    const published = this.#published.get(path);
    const hadKeys = published?.set !== undefined && published.set.keys.length > 0;
    const maxAgeMs = hadKeys ? this.#freshMs : Math.min(ABSENT_MS, this.#freshMs);
    const isFresh = published !== undefined && performance.now() - published.readAt <= maxAgeMs;
    if (isFresh && published.set) return publishedOf(published.set);
    onWait();
    const set = await (isFresh ? published.reading : this.#readPublished(environment, hadKeys));
    return set ? publishedOf(set) : [];
  }

  /** Reads keys to publish them, once for all callers who wait. */
  #readPublished(environment: EnvironmentName, hadKeys: boolean): Promise<SigningKeySet | undefined> {
    const path = environmentPath(environment);
    const read = async () =>
      hadKeys || (await this.#mayHaveKeys(path)) ? this.#deps.store.readByName(environment) : undefined;
    const published: Published = { reading: read(), set: undefined, readAt: Number.POSITIVE_INFINITY };
    setBounded(this.#published, path, published, MAX_KNOWN);
    const done = (set?: SigningKeySet) => {
      published.set = set;
      published.readAt = performance.now();
      if (!set && this.#published.get(path) === published) this.#published.delete(path);
    };
    published.reading.then(done, () => done());
    return published.reading;
  }

  /** Whether an environment is listed, or is one of the few others that are read all the same. */
  async #mayHaveKeys(path: string): Promise<boolean> {
    const now = performance.now();
    if (!this.#listed || now - this.#listed.readAt > ABSENT_MS) {
      const paths = this.#deps.store.environments();
      const listed = { paths, readAt: now, unlistedLeft: MAX_UNLISTED };
      this.#listed = listed;
      paths.catch(() => {
        if (this.#listed === listed) this.#listed = undefined;
      });
    }
    const listed = this.#listed;
    return (await listed.paths).has(path) || listed.unlistedLeft-- > 0;
  }

  /** The keys of an environment, as they are now, the one first that signs first. Rejects as the store does. */
  async list(environment: Environment) {
    const { keys, now } = await this.#deps.store.read(environment);
    return statesOf(keys, now);
  }

  /**
   * Has another key sign, at once or as soon as it has been published for long enough; keys are made if there are none.
   *
   * @param how `replace`: the keys before may not be used any more
   * @returns as `list`
   */
  async rotate(environment: Environment, how: "rotate" | "replace", by: ChangeBy) {
    const set = await this.#change(environment, await this.#deps.store.read(environment), how, by);
    this.forget(environmentPath(environment));
    return statesOf(set.keys, set.now);
  }

  async #find(environment: Environment): Promise<KnownKeys> {
    const path = environmentPath(environment);
    const known = this.#known.get(path);
    if (known?.environment.number !== environment.number || performance.now() - known.readAt > this.#freshMs)
      return this.#readings.get(path) ?? this.#read(environment);
    known.usedAt = performance.now();
    return known;
  }

  #read(environment: Environment): Promise<KnownKeys> {
    const path = environmentPath(environment);
    const isFresh = () => this.#readings.get(path) === reading;
    const reading: Promise<KnownKeys> = this.#readSet(environment)
      .then((set) => {
        const known = new KnownKeys(environment, set);
        return isFresh() ? this.#keep(known) : known;
      })
      .finally(() => {
        if (isFresh()) this.#readings.delete(path);
      });
    this.#readings.set(path, reading);
    return reading;
  }

  /** Reads the keys, and changes them if it is time. Those of an environment without keys are made with its first session. */
  async #readSet(environment: Environment): Promise<SigningKeySet> {
    const set = await this.#deps.store.read(environment);
    if (set.keys.length === 0 || !nextKeySet(set.keys, set.now)) return set;
    try {
      return await this.#change(environment, set, "maintain", IN_TIME);
    } catch (error) {
      // The key that signs goes on to do so.
      this.#deps.onOverdue(error);
      return set;
    }
  }

  /** @throws SigningKeysChanged when others change them all the time */
  async #change(
    environment: Environment,
    found: SigningKeySet,
    how: NonNullable<Parameters<typeof nextKeySet>[2]>,
    by: ChangeBy,
  ): Promise<SigningKeySet> {
    let set = found;
    for (let tries = 0; tries < TRIES; tries++) {
      const next = nextKeySet(set.keys, set.now, how);
      if (!next) return set;
      const times = new Map(next.kept.map((key) => [key.kid, key.activeTime]));
      const states = statesOf(set.keys, set.now).filter(({ key }) => times.has(key.kid));
      const kept = states.map(({ key }) => ({ ...key, activeTime: times.get(key.kid) ?? key.activeTime }));
      const made = await Promise.all(next.made.map((activeTime) => newKey(set.now, activeTime)));
      const all = withoutRetired([...kept, ...made], set.now);
      const answer = await this.#deps.store.replace(environment, all, { was: set.version, by });
      if (answer.isMade) return answer;
      set = answer;
    }
    throw new SigningKeysChanged();
  }

  #keep(known: KnownKeys): KnownKeys {
    const path = environmentPath(known.environment);
    setBounded(this.#known, path, known, MAX_KNOWN);
    return known;
  }

  #refresh(): void {
    const now = performance.now();
    for (const [path, { environment, usedAt, readAt }] of this.#known) {
      if (now - usedAt > IN_USE_MS) this.#known.delete(path);
      // When it fails, the next use reads them.
      else if (now - readAt > REFRESH_MS / 2)
        this.#read(environment).then(
          (known) => {
            known.usedAt = usedAt;
          },
          () => {},
        );
    }
  }
}

function publishedOf({ keys, now }: SigningKeySet): SigningKey[] {
  return statesOf(keys, now).map(({ key }) => key);
}

/** Drops the private keys of those that sign no more: nobody needs them, and they could leak. */
function withoutRetired(keys: readonly SigningKey[], now: number): SigningKey[] {
  return statesOf(keys, now).map(({ key, state }) =>
    state === "retired" ? { ...key, d: undefined, sealed: undefined } : key,
  );
}

async function newKey(createTime: number, activeTime: number): Promise<SigningKey> {
  return { kid: newKeyId(), createTime, activeTime, ...(await newKeyPair()), sealed: undefined };
}
