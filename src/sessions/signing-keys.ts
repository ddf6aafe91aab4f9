import type { JWK } from "jose";
import type { ChangeBy } from "../domain/audit.ts";
import { setBounded } from "../domain/bounded.ts";
import { type Environment, type EnvironmentName, environmentPath } from "../domain/environment.ts";
import { RecordUnreadable, SigningKeysChanged } from "../domain/errors.ts";
import { type EnvironmentStore, unlessNotFound } from "../domain/store.ts";
import { IN_TIME, type SigningKey, type SigningKeySet, type SigningKeyStore } from "../domain/viewer-session.ts";
import { type KeyChange, nextKeySet, statesOf } from "./keys.ts";
import { newKeyId } from "./session.ts";
import { jwkOf, newKeyPair } from "./signing.ts";

/** The maximum age at which cached keys are used, in milliseconds. */
const FRESH_MS = 120_000;

const MAX_KNOWN = 10_000;

/** The maximum number of attempts to change keys. An attempt fails if another worker changes the keys first. */
const TRIES = 5;

export type SigningKeyAt = ReturnType<typeof statesOf<SigningKey>>[number];

/** The cached keys of an environment. `readAt` is from `performance.now()`. */
class KnownKeys {
  readonly environment: Environment;
  readonly set: SigningKeySet;
  readonly readAt = performance.now();
  readonly #keys: ReadonlyMap<string, { readonly verifying: JWK; readonly signing: JWK | undefined }>;

  constructor(environment: Environment, set: SigningKeySet) {
    this.environment = environment;
    this.set = set;
    const keys = set.keys.map(({ kid, x, y, d }) => {
      const signing = d === undefined ? undefined : jwkOf({ x, y, d });
      return [kid, { verifying: jwkOf({ x, y }), signing }] as const;
    });
    this.#keys = new Map(keys);
  }

  /** @throws RecordUnreadable if the active key cannot be decrypted */
  signing() {
    // Use the clock of the store, because the times of the keys are from this clock.
    const now = this.set.now + (performance.now() - this.readAt);
    const { key } = statesOf(this.set.keys, now).find(({ state }) => state === "active") ?? {};
    if (!key) throw new TypeError("an environment has no signing key");
    const { kid } = key;
    const signing = this.#keys.get(kid)?.signing;
    if (!signing) throw new RecordUnreadable(new Error(`the signing key ${kid} cannot be decrypted`));
    return { kid, key: signing };
  }

  keyOf(kid: string): JWK | undefined {
    return this.#keys.get(kid)?.verifying;
  }
}

/** Calls `read`, which reads the store. If too many reads are in flight, rejects and does not call `read`. */
export type LimitedRead = <T>(read: () => Promise<T>) => Promise<T>;

interface SigningKeysDeps {
  readonly store: SigningKeyStore;
  readonly environments: Pick<EnvironmentStore, "find">;
  /** Called if an environment or its keys are not found. Rejects if Redis may have lost this data. */
  readonly confirmMissing: () => Promise<void>;
  /** The maximum age at which cached keys are used after `setSubscribed(false)`, in milliseconds. */
  readonly unsubscribedMs: number;
  /** Called if a rotation of the keys was due and failed. The next read of the keys tries the rotation again. */
  readonly onOverdue: (error: unknown) => void;
}

/**
 * The cached signing keys of environments. If a rotation of the keys is due, the first worker that reads the keys
 * rotates them.
 */
export class SigningKeys {
  readonly #deps: SigningKeysDeps;
  /** The cached keys, by the path of the environment. */
  readonly #known = new Map<string, KnownKeys>();
  /** Reads in flight, by path. After a change of the keys, a read may return old keys, so `forget` removes the read. */
  readonly #readings = new Map<string, Promise<KnownKeys>>();
  #freshMs = FRESH_MS;

  constructor(deps: SigningKeysDeps) {
    this.#deps = deps;
  }

  /** Sets whether this process is subscribed to changes of keys by other workers. Default: true. */
  setSubscribed(isSubscribed: boolean): void {
    this.#freshMs = isSubscribed ? FRESH_MS : Math.min(FRESH_MS, this.#deps.unsubscribedMs);
  }

  /** Removes the cached keys of the environment with this path, or of all environments. */
  forget(path?: string): void {
    for (const map of [this.#known, this.#readings]) {
      if (path === undefined) map.clear();
      else map.delete(path);
    }
  }

  /**
   * Returns the public key with this id, or undefined for an unknown id. If the cache does not contain the key, reads
   * the keys again, because another worker may have created the key. Concurrent calls share this read.
   */
  async keyOf(environment: Environment, kid: string): Promise<JWK | undefined> {
    const known = (await this.#find(environment)).keyOf(kid);
    if (known) return known;
    return (await this.#read(environment)).keyOf(kid);
  }

  /** Returns the active key of an environment. Creates keys if none exist. */
  async signing(environment: Environment): Promise<ReturnType<KnownKeys["signing"]>> {
    let known = await this.#find(environment);
    if (known.set.keys.length === 0) {
      await this.#change(environment, known.set, "maintain", IN_TIME);
      // Another worker may have changed the keys after this change, so read the keys again.
      this.forget(environmentPath(environment));
      known = await this.#read(environment);
    }
    return known.signing();
  }

  /**
   * Returns the published keys of an environment, from the cache if possible. The result is empty if the environment
   * has no keys or does not exist. The cache contains only environments with keys, so that unauthenticated clients
   * cannot evict keys by requests with guessed names.
   *
   * @param limited runs the reads of the store
   */
  async published(name: EnvironmentName, limited: LimitedRead): Promise<readonly SigningKey[]> {
    const read = async () => {
      const environment = await this.#deps.environments.find(name).catch(unlessNotFound);
      const found = environment && (await this.#read(environment));
      if (!found?.set.keys.length) await this.#deps.confirmMissing();
      return found;
    };
    const known = this.#cached(name) ?? (await limited(read));
    return known ? statesOf(known.set.keys, known.set.now).map(({ key }) => key) : [];
  }

  /** Returns the keys with their current states, in the order in which they sign. */
  async list(environment: Environment) {
    const { keys, now } = await this.#deps.store.read(environment);
    return statesOf(keys, now);
  }

  /**
   * Rotates the keys of an environment, or creates keys if none exist.
   *
   * @param how `rotate`: the standby key becomes active as soon as it has been published for `PUBLISHED_MS`. `replace`:
   *   new keys replace all keys immediately, so all sessions become invalid
   */
  async rotate(environment: Environment, how: "rotate" | "replace", by: ChangeBy) {
    const set = await this.#change(environment, await this.#deps.store.read(environment), how, by);
    this.forget(environmentPath(environment));
    return statesOf(set.keys, set.now);
  }

  async #find(environment: Environment): Promise<KnownKeys> {
    const known = this.#cached(environment);
    return known?.environment.number === environment.number ? known : this.#read(environment);
  }

  #cached(name: EnvironmentName): KnownKeys | undefined {
    const known = this.#known.get(environmentPath(name));
    return known && performance.now() - known.readAt <= this.#freshMs ? known : undefined;
  }

  #read(environment: Environment): Promise<KnownKeys> {
    const path = environmentPath(environment);
    const inFlight = this.#readings.get(path);
    if (inFlight) return inFlight;
    const isCurrent = () => this.#readings.get(path) === reading;
    const read = async () => {
      try {
        const known = new KnownKeys(environment, await this.#readSet(environment));
        if (isCurrent() && known.set.keys.length > 0) setBounded(this.#known, path, known, MAX_KNOWN);
        return known;
      } finally {
        if (isCurrent()) this.#readings.delete(path);
      }
    };
    const reading = read();
    this.#readings.set(path, reading);
    return reading;
  }

  /**
   * Reads the keys. If a rotation is due, rotates the keys. Does not create the first keys of an environment, because
   * `signing` creates them for the first session.
   */
  async #readSet(environment: Environment): Promise<SigningKeySet> {
    const set = await this.#deps.store.read(environment);
    if (set.keys.length === 0 || !nextKeySet(set.keys, set.now)) return set;
    try {
      return await this.#change(environment, set, "maintain", IN_TIME);
    } catch (error) {
      // Keep the current keys, so that the active key continues to sign.
      this.#deps.onOverdue(error);
      return set;
    }
  }

  async #change(environment: Environment, found: SigningKeySet, how: KeyChange, by: ChangeBy): Promise<SigningKeySet> {
    let set = found;
    for (let tries = 0; tries < TRIES; tries++) {
      const next = nextKeySet(set.keys, set.now, how);
      if (!next) return set;
      const made = await Promise.all(next.made.map((activeTime) => newKey(set.now, activeTime)));
      const all = withoutRetired([...next.kept, ...made], set.now);
      const answer = await this.#deps.store.replace(environment, all, { was: set.version, by });
      if (answer.isMade) return answer;
      set = answer;
    }
    throw new SigningKeysChanged();
  }
}

/** Removes the private keys of retired keys. These private keys are not needed any more, but could still leak. */
function withoutRetired(keys: readonly SigningKey[], now: number): SigningKey[] {
  return statesOf(keys, now).map(({ key, state }) =>
    state === "retired" ? { ...key, d: undefined, sealed: undefined } : key,
  );
}

async function newKey(createTime: number, activeTime: number): Promise<SigningKey> {
  return { kid: newKeyId(), createTime, activeTime, ...(await newKeyPair()), sealed: undefined };
}
