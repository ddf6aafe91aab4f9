import { expect, it } from "vitest";
import { KEPT_MS, type KeyTimes, LIFETIME_MS, nextKeySet, PUBLISHED_MS, statesOf } from "./keys.ts";

const NOW = 1_800_000_000_000;

const key = (kid: string, activeTime: number, createTime = NOW - 10 * LIFETIME_MS): KeyTimes => ({
  kid,
  createTime,
  activeTime,
});

const shown = (keys: readonly KeyTimes[], now = NOW) => statesOf(keys, now).map(({ key, state }) => [key.kid, state]);

it("the last key that has begun signs, those before it are retired, and those behind it stand by", () => {
  const keys = [key("c", NOW + 1), key("a", NOW - 2000), key("b", NOW)];
  expect(shown(keys)).toEqual([
    ["a", "retired"],
    ["b", "active"],
    ["c", "standby"],
  ]);
  expect(statesOf(keys, NOW)[0]).toMatchObject({ retireTime: NOW, goneTime: NOW + KEPT_MS });
  expect(statesOf(keys, NOW)[2]).toMatchObject({ retireTime: undefined, goneTime: undefined });
});

it("a retired key is published until the last session that it signed has ended, and no longer", () => {
  const keys = [key("a", NOW - LIFETIME_MS), key("b", NOW)];
  expect(shown(keys, NOW + KEPT_MS - 1)).toHaveLength(2);
  expect(shown(keys, NOW + KEPT_MS)).toEqual([["b", "active"]]);
  // An hour, by which the longest session ends, and some time for clocks.
  expect(KEPT_MS).toBeGreaterThanOrEqual(3_600_000 + 300_000);
});

it("the first key signs though a clock is behind, and there are none without keys", () => {
  expect(shown([key("a", NOW + 5000), key("b", NOW + LIFETIME_MS)])).toEqual([
    ["a", "active"],
    ["b", "standby"],
  ]);
  expect(statesOf([], NOW)).toEqual([]);
});

it("an environment without keys gets one that signs and one that takes over", () => {
  expect(nextKeySet([], NOW)).toEqual({ kept: [], made: [NOW, NOW + LIFETIME_MS] });
});

it("keys that are as they should be are left alone", () => {
  const keys = [key("a", NOW - 1), key("b", NOW + LIFETIME_MS - 1)];
  expect(nextKeySet(keys, NOW)).toBeUndefined();
  expect(nextKeySet(keys, NOW + LIFETIME_MS - 2)).toBeUndefined();
});

it("once the standby signs, another one is published, and what is gone is dropped later", () => {
  const keys = [key("a", NOW - LIFETIME_MS), key("b", NOW)];
  expect(nextKeySet(keys, NOW)).toEqual({ kept: keys, made: [NOW + LIFETIME_MS] });
  const grown = [...keys, key("c", NOW + LIFETIME_MS, NOW)];
  expect(nextKeySet(grown, NOW + KEPT_MS - 1)).toBeUndefined();
  expect(nextKeySet(grown, NOW + KEPT_MS)).toEqual({ kept: grown.slice(1), made: [] });
});

it("after a long silence no key signs that was not published for as long as caches may keep the keys before", () => {
  const keys = [key("a", NOW - 9 * LIFETIME_MS), key("b", NOW - 8 * LIFETIME_MS)];
  expect(nextKeySet(keys, NOW)).toEqual({ kept: [keys[1]], made: [NOW + PUBLISHED_MS] });
  expect(PUBLISHED_MS).toBeGreaterThan(600_000);
});

it("a rotation has the standby sign at once, and another one stand by", () => {
  const keys = [key("a", NOW - 1000), key("b", NOW + LIFETIME_MS)];
  const next = nextKeySet(keys, NOW, "rotate");
  expect(next).toEqual({ kept: [keys[0], { ...keys[1], activeTime: NOW }], made: [NOW + LIFETIME_MS] });
});

it("a rotation waits for a standby that is too young, however often it is asked for", () => {
  const keys = [key("a", NOW - 1000, NOW - 1000), key("b", NOW + LIFETIME_MS, NOW - 1000)];
  const next = nextKeySet(keys, NOW, "rotate");
  const waiting = { ...keys[1], activeTime: NOW - 1000 + PUBLISHED_MS };
  expect(next).toEqual({ kept: [keys[0], waiting], made: [] });
  expect(nextKeySet([keys[0] as KeyTimes, waiting as KeyTimes], NOW + 1, "rotate")).toBeUndefined();
});

it("a rotation without a standby publishes one, which signs as soon as it may", () => {
  const [only] = [key("a", NOW - 1000)];
  expect(nextKeySet([only as KeyTimes], NOW, "rotate")).toEqual({ kept: [only], made: [NOW + PUBLISHED_MS] });
});

it("a replacement keeps none", () => {
  const keys = [key("a", NOW - 1000), key("b", NOW + LIFETIME_MS)];
  expect(nextKeySet(keys, NOW, "replace")).toEqual({ kept: [], made: [NOW, NOW + LIFETIME_MS] });
});

it("over years of looks, one key always signs, each was published before it did, and there are few", () => {
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
    const { key: signs } = states.find(({ state }) => state === "active") ?? expect.fail("none signs");
    if (signs.kid !== "k0") expect(now - (published.get(signs.kid) ?? now)).toBeGreaterThan(PUBLISHED_MS);
  }
  expect(count).toBeGreaterThan(30);
});
