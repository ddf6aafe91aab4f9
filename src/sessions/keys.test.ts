import { expect, it } from "vitest";
import { KEPT_MS, type KeyTimes, LIFETIME_MS, nextKeySet, PUBLISHED_MS, statesOf } from "./keys.ts";

const NOW = 1_800_000_000_000;

const key = (kid: string, activeTime: number, createTime = NOW - 10 * LIFETIME_MS): KeyTimes => ({
  kid,
  createTime,
  activeTime,
});

const shown = (keys: readonly KeyTimes[], now = NOW) => statesOf(keys, now).map(({ key, state }) => [key.kid, state]);

it("the last key whose active time has passed is active, earlier keys are retired, and later keys are standby", () => {
  const keys = [key("c", NOW + 1), key("a", NOW - 2000), key("b", NOW)];
  expect(shown(keys)).toEqual([
    ["a", "retired"],
    ["b", "active"],
    ["c", "standby"],
  ]);
  expect(statesOf(keys, NOW)[0]).toMatchObject({ retireTime: NOW, goneTime: NOW + KEPT_MS });
  expect(statesOf(keys, NOW)[2]).toMatchObject({ retireTime: undefined, goneTime: undefined });
});

it("a retired key is published until its last session has expired", () => {
  const keys = [key("a", NOW - LIFETIME_MS), key("b", NOW)];
  expect(shown(keys, NOW + KEPT_MS - 1)).toHaveLength(2);
  expect(shown(keys, NOW + KEPT_MS)).toEqual([["b", "active"]]);
  // A session lasts at most one hour. Allow five minutes for clock differences.
  expect(KEPT_MS).toBeGreaterThanOrEqual(3_600_000 + 300_000);
});

it("before all active times, the first key is active, because the clock of the process may be slow", () => {
  expect(shown([key("a", NOW + 5000), key("b", NOW + LIFETIME_MS)])).toEqual([
    ["a", "active"],
    ["b", "standby"],
  ]);
  expect(statesOf([], NOW)).toEqual([]);
});

it("an environment without keys gets an active key and a standby key", () => {
  expect(nextKeySet([], NOW)).toEqual({ kept: [], made: [NOW, NOW + LIFETIME_MS] });
});

it("keys stay unchanged if no change is due", () => {
  const keys = [key("a", NOW - 1), key("b", NOW + LIFETIME_MS - 1)];
  expect(nextKeySet(keys, NOW)).toBeUndefined();
  expect(nextKeySet(keys, NOW + LIFETIME_MS - 2)).toBeUndefined();
});

it("when the standby key becomes active, a new standby key is created, and keys without valid sessions are removed", () => {
  const keys = [key("a", NOW - LIFETIME_MS), key("b", NOW)];
  expect(nextKeySet(keys, NOW)).toEqual({ kept: keys, made: [NOW + LIFETIME_MS] });
  const grown = [...keys, key("c", NOW + LIFETIME_MS, NOW)];
  expect(nextKeySet(grown, NOW + KEPT_MS - 1)).toBeUndefined();
  expect(nextKeySet(grown, NOW + KEPT_MS)).toEqual({ kept: grown.slice(1), made: [] });
});

it("after months without calls, a new key does not sign before it has been published for the cache time", () => {
  const keys = [key("a", NOW - 9 * LIFETIME_MS), key("b", NOW - 8 * LIFETIME_MS)];
  expect(nextKeySet(keys, NOW)).toEqual({ kept: [keys[1]], made: [NOW + PUBLISHED_MS] });
  expect(PUBLISHED_MS).toBeGreaterThan(600_000);
});

it("a rotation activates the standby key and publishes a new key", () => {
  const keys = [key("a", NOW - 1000), key("b", NOW + LIFETIME_MS)];
  const next = nextKeySet(keys, NOW, "rotate");
  expect(next).toEqual({ kept: [keys[0], { ...keys[1], activeTime: NOW }], made: [NOW + LIFETIME_MS] });
});

it("even a repeated rotation does not activate the standby key before it has been published for PUBLISHED_MS", () => {
  const keys = [key("a", NOW - 1000, NOW - 1000), key("b", NOW + LIFETIME_MS, NOW - 1000)];
  const next = nextKeySet(keys, NOW, "rotate");
  const waiting = { ...keys[1], activeTime: NOW - 1000 + PUBLISHED_MS };
  expect(next).toEqual({ kept: [keys[0], waiting], made: [] });
  expect(nextKeySet([keys[0] as KeyTimes, waiting as KeyTimes], NOW + 1, "rotate")).toBeUndefined();
});

it("a rotation without a standby key publishes a new key, which signs after the cache time", () => {
  const [only] = [key("a", NOW - 1000)];
  expect(nextKeySet([only as KeyTimes], NOW, "rotate")).toEqual({ kept: [only], made: [NOW + PUBLISHED_MS] });
});

it("a replacement removes all old keys", () => {
  const keys = [key("a", NOW - 1000), key("b", NOW + LIFETIME_MS)];
  expect(nextKeySet(keys, NOW, "replace")).toEqual({ kept: [], made: [NOW, NOW + LIFETIME_MS] });
});

it("over years, exactly one key is active, each key is published before it signs, and at most three keys exist", () => {
  let keys: KeyTimes[] = [];
  const published = new Map<string, number>();
  let count = 0;
  const step = 7 * 3_600_000;
  for (let now = NOW; now < NOW + 3 * 365 * 86_400_000; now += step) {
    const next = nextKeySet(keys, now);
    if (next) keys = [...next.kept, ...next.made.map((activeTime) => key(`k${count++}`, activeTime, now))];
    for (const { kid } of keys) published.set(kid, Math.min(now, published.get(kid) ?? now));
    const states = statesOf(keys, now);
    expect(states.filter(({ state }) => state === "active")).toHaveLength(1);
    expect(states.filter(({ state }) => state === "standby")).toHaveLength(1);
    expect(states.length).toBeLessThanOrEqual(3);
    const { key: signs } = states.find(({ state }) => state === "active") ?? expect.fail("no key is active");
    if (signs.kid !== "k0") expect(now - (published.get(signs.kid) ?? now)).toBeGreaterThan(PUBLISHED_MS);
  }
  expect(count).toBeGreaterThan(30);
});
