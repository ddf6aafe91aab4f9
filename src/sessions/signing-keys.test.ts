import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type Environment, type EnvironmentName, environmentPath } from "../domain/environment.ts";
import { EnvironmentNotFound } from "../domain/errors.ts";
import type { SigningKey, SigningKeySet, SigningKeyStore } from "../domain/viewer-session.ts";
import { newKeyId } from "./session.ts";
import { newKeyPair } from "./signing.ts";
import { SigningKeys } from "./signing-keys.ts";

const ENVIRONMENT: Environment = { name: "acme", tag: undefined, number: 1 };

/** A fake store for the keys of one environment. The store counts its reads. */
class OneEnvironment implements SigningKeyStore {
  set: SigningKeySet = { keys: [], version: "", now: Date.now() };
  reads = 0;
  /** Called after the store has changed, but before `replace` returns. */
  afterChange = async () => {};

  async read() {
    this.reads++;
    return this.set;
  }

  async replace(_environment: Environment, keys: readonly SigningKey[]) {
    const set = { keys, version: `${this.set.version}1`, now: this.set.now };
    this.set = set;
    await this.afterChange();
    return { ...set, isMade: true };
  }
}

const unlimited = <T>(read: () => Promise<T>) => read();

let time = 1000;
let store: OneEnvironment;
let keys: SigningKeys;
let lookUp: (name: EnvironmentName) => Promise<Environment>;
let onOverdue: (error: unknown) => void;

beforeEach(() => {
  onOverdue = (error) => expect.fail(String(error));
  lookUp = async (name) => {
    if (name.name.startsWith("guess")) throw new EnvironmentNotFound();
    return { ...name, number: 1 };
  };
  vi.spyOn(performance, "now").mockImplementation(() => time);
  store = new OneEnvironment();
  keys = new SigningKeys({
    store,
    environments: { find: (name) => lookUp(name) },
    confirmMissing: async () => {},
    unsubscribedMs: 5000,
    onOverdue: (error) => onOverdue(error),
  });
});

afterEach(() => {
  vi.restoreAllMocks();
});

async function newKey(): Promise<SigningKey> {
  const { now } = store.set;
  return { kid: newKeyId(), createTime: now, activeTime: now, ...(await newKeyPair()), sealed: undefined };
}

async function newKeys(): Promise<SigningKey[]> {
  const [active, standby] = [await newKey(), await newKey()];
  return [active, { ...standby, activeTime: active.activeTime + 86_400_000 }];
}

it("SigningKeys shares one read among concurrent look-ups of unknown key ids", async () => {
  await keys.signing(ENVIRONMENT);
  const before = store.reads;
  await Promise.all(Array.from({ length: 50 }, () => keys.keyOf(ENVIRONMENT, newKeyId())));
  expect(store.reads - before).toBe(1);
});

it("SigningKeys finds a key that another worker created after the last read", async () => {
  await keys.signing(ENVIRONMENT);
  const made = await newKeys();
  store.set = { ...store.set, keys: made };
  const kid = made[0]?.kid ?? "";
  expect(await keys.keyOf(ENVIRONMENT, kid)).toBeDefined();
});

it("SigningKeys signs with the keys of another worker if both workers change the keys at the same time", async () => {
  const others = await newKeys();
  store.afterChange = async () => {
    store.set = { ...store.set, keys: others };
    keys.forget(environmentPath(ENVIRONMENT));
  };
  expect((await keys.signing(ENVIRONMENT)).kid).toBe(others[0]?.kid);
});

it("SigningKeys does not cache environments without keys, so new keys appear at once, and requests for unknown environments evict no keys", async () => {
  const absent = store.set;
  const late = { name: "late", tag: undefined };
  expect(await keys.published(late, unlimited)).toEqual([]);
  store.set = { ...absent, keys: await newKeys() };
  expect(await keys.published(late, unlimited)).toHaveLength(2);
  expect(await keys.published(ENVIRONMENT, unlimited)).toHaveLength(2);
  const guess = (i: number) => keys.published({ name: `guess${i}`, tag: undefined }, unlimited);
  for (let i = 0; i < 11_000; i++) expect(await guess(i)).toEqual([]);
  const refuse = () => expect.fail("the keys are not cached");
  for (const environment of [late, ENVIRONMENT]) expect(await keys.published(environment, refuse)).toHaveLength(2);
});

it("SigningKeys does not read keys for refused callers, and shares one read among waiting callers", async () => {
  store.set = { ...store.set, keys: await newKeys() };
  const refuse = () => Promise.reject(new RangeError("too many"));
  await expect(keys.published(ENVIRONMENT, refuse)).rejects.toThrow(RangeError);
  expect(store.reads).toBe(0);
  const waiting = Array.from({ length: 50 }, () => keys.published(ENVIRONMENT, unlimited));
  for (const found of await Promise.all(waiting)) expect(found).toHaveLength(2);
  expect(store.reads).toBe(1);
  // Cached keys need no read, so the limit does not refuse this caller.
  time += 100_000;
  expect(await keys.published(ENVIRONMENT, refuse)).toHaveLength(2);
});

it("SigningKeys signs even if a concurrent call of `published` never finds the environment", async () => {
  store.set = { ...store.set, keys: await newKeys() };
  lookUp = () => new Promise(() => {});
  void keys.published({ name: ENVIRONMENT.name, tag: ENVIRONMENT.tag }, unlimited);
  expect((await keys.signing(ENVIRONMENT)).kid).toBe(store.set.keys[0]?.kid);
});

it("SigningKeys publishes the keys even if a due change fails", async () => {
  const made = await newKeys();
  store.set = { ...store.set, keys: made.slice(0, 1) };
  const full = new Error("Redis is full");
  store.afterChange = () => Promise.reject(full);
  onOverdue = vi.fn();
  expect((await keys.published(ENVIRONMENT, unlimited)).map(({ kid }) => kid)).toEqual([made[0]?.kid]);
  expect(onOverdue).toHaveBeenCalledExactlyOnceWith(full);
});

it("SigningKeys caches keys for API_TOKEN_CACHE without a subscription, and longer with a subscription", async () => {
  store.set = { ...store.set, keys: await newKeys() };
  await keys.signing(ENVIRONMENT);
  const readsAt = async (ms: number) => {
    time += ms;
    const before = store.reads;
    await keys.keyOf(ENVIRONMENT, store.set.keys[0]?.kid ?? "");
    await keys.signing(ENVIRONMENT);
    return store.reads - before;
  };
  expect(await readsAt(6000)).toBe(0);
  keys.setSubscribed(false);
  expect(await readsAt(0)).toBe(1);
  expect(await readsAt(4000)).toBe(0);
  expect(await readsAt(2000)).toBe(1);
  keys.setSubscribed(true);
  expect(await readsAt(100_000)).toBe(0);
});

it("without a subscription, SigningKeys reads published keys again after API_TOKEN_CACHE", async () => {
  store.set = { ...store.set, keys: await newKeys() };
  keys.setSubscribed(false);
  const [first] = await keys.published(ENVIRONMENT, unlimited);
  const changed = await newKeys();
  store.set = { ...store.set, keys: changed };
  time += 6000;
  const [second] = await keys.published(ENVIRONMENT, unlimited);
  expect(second?.kid).toBe(changed[0]?.kid);
  expect(second?.kid).not.toBe(first?.kid);
});
