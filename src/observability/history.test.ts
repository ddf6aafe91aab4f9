import { describe, expect, it } from "vitest";
import { COLUMN, environmentScope, History, methodScope, OTHER_ENVIRONMENTS, quantileOf, SERVICE } from "./history.ts";

const SLOT = 1_000_000;
/** Returns a time at which the sample of a slot is complete. */
const completeAt = (slot: number) => (slot + 1) * 10_000 + 2000;
const ALL = { after: 0 };
const GET = methodScope("GetUserGroup");

describe("a history", () => {
  it("adds up the samples of several workers, and returns the calls by method and by environment", () => {
    const history = new History();
    const [acme, other] = [environmentScope(7, "acme/Customer"), environmentScope(8, "other/")];
    history.add({
      slot: SLOT,
      scopes: {
        [GET]: { "2": 10, [`${COLUMN.error}USER_GROUP_NOT_FOUND`]: 2 },
        [methodScope("WatchEvents")]: { [COLUMN.streams]: 1 },
        [acme]: { "2": 9, [`${COLUMN.error}USER_GROUP_NOT_FOUND`]: 2 },
        [SERVICE]: { [COLUMN.workers]: 1, [`${COLUMN.redis}get`]: 10, "0": 10, [`${COLUMN.refused}queue-full`]: 3 },
      },
    });
    history.add({
      slot: SLOT,
      scopes: { [GET]: { "3": 30 }, [other]: { "3": 30 }, [SERVICE]: { [COLUMN.workers]: 1, [COLUMN.queueLength]: 4 } },
    });
    const { samples, methods, environments } = history.read(ALL, completeAt(SLOT));
    expect(samples).toHaveLength(1);
    const [sample] = samples;
    expect(sample).toMatchObject({ endTime: (SLOT + 1) * 10_000, calls: 41, errors: { USER_GROUP_NOT_FOUND: 2 } });
    expect(sample?.p50).toBeGreaterThan(0.0025);
    expect(sample?.p50).toBeLessThan(0.005);
    const service = { workers: 2, queueLength: 4, redisRoundTrips: { get: 10 }, refusals: { "queue-full": 3 } };
    expect(sample?.service).toMatchObject({ ...service, redisErrors: 0, redisP50: 0.00025 });
    expect(methods.map(({ method, calls }) => [method, calls])).toEqual([
      ["GetUserGroup", 40],
      ["WatchEvents", 1],
    ]);
    expect(environments.map(({ path, calls, errors }) => [path, calls, errors])).toEqual([
      ["other/", 30, {}],
      ["acme/Customer", 9, { USER_GROUP_NOT_FOUND: 2 }],
    ]);
    const of = (query: object) => {
      const found = history.read({ ...ALL, ...query }, completeAt(SLOT));
      return [found.samples[0]?.calls, found.samples[0]?.service, found.environments.length];
    };
    expect(of({ method: "WatchEvents" })).toEqual([1, undefined, 2]);
    expect(of({ method: "Unknown" })).toEqual([0, undefined, 2]);
    expect(of({ environmentNumber: 7 })).toEqual([9, undefined, 0]);
    expect(of({ environmentPath: "acme/Customer" })).toEqual([9, undefined, 2]);
    expect(of({ environmentPath: "e/Customer" })).toEqual([0, undefined, 2]);
    expect(of({ environmentNumber: 70 })).toEqual([0, undefined, 0]);
  });

  it("adds up the calls of an environment that was deleted and created again", () => {
    const history = new History();
    const scopes = { [environmentScope(7, "acme/")]: { "2": 9 }, [environmentScope(8, "acme/")]: { "2": 3 } };
    history.add({ slot: SLOT, scopes });
    const { environments } = history.read(ALL, completeAt(SLOT));
    expect(environments).toEqual([{ path: "acme/", calls: 12, errors: {}, p50: 0.00175, p99: 0.002485 }]);
    expect(history.read({ ...ALL, environmentNumber: 8 }, completeAt(SLOT)).samples[0]?.calls).toBe(3);
  });

  it("returns only complete samples after the requested time, and an empty sample for each missing interval", () => {
    const history = new History();
    expect(history.read(ALL, completeAt(SLOT))).toMatchObject({ samples: [], methods: [], environments: [] });
    for (const slot of [SLOT, SLOT + 3]) history.add({ slot, scopes: { [GET]: { "0": 1 } } });
    const read = (now: number, query = ALL) => history.read(query, now).samples.map(({ calls }) => calls);
    expect(read(completeAt(SLOT + 3) - 1)).toEqual([1, 0, 0]);
    expect(read(completeAt(SLOT + 3))).toEqual([1, 0, 0, 1]);
    expect(read(completeAt(SLOT + 9))).toEqual([1, 0, 0, 1]);
    expect(read(completeAt(SLOT + 3), { after: (SLOT + 2) * 10_000 })).toEqual([0, 1]);
    // A busy worker can report a sample late, after the samples of later intervals.
    history.add({ slot: SLOT + 1, scopes: { [GET]: { "0": 5 } } });
    expect(read(completeAt(SLOT + 3))).toEqual([1, 5, 0, 1]);
  });

  it("keeps the samples of one hour", () => {
    const history = new History();
    for (let i = 0; i < 1000; i++) history.add({ slot: SLOT + i, scopes: { [GET]: { "0": i } } });
    const { samples, methods } = history.read(ALL, completeAt(SLOT + 999));
    expect(samples).toHaveLength(360);
    expect([samples[0]?.calls, samples.at(-1)?.calls]).toEqual([640, 999]);
    expect(methods[0]?.calls).toBe(((640 + 999) * 360) / 2);
    history.add({ slot: SLOT, scopes: { [GET]: { "0": 1 } } });
    expect(history.read(ALL, completeAt(SLOT + 999)).samples.length).toBeLessThan(2);
  });

  it("returns the 24 busiest environments separately, and the sum of the other environments", () => {
    const history = new History();
    const scopeOf = (i: number) => environmentScope(i, `e${i}/`);
    for (let i = 1; i <= 30; i++)
      history.add({ slot: SLOT, scopes: { [scopeOf(i)]: { "0": i, [COLUMN.streams]: i, [`${COLUMN.error}X`]: 99 } } });
    history.add({ slot: SLOT, scopes: { [OTHER_ENVIRONMENTS]: { "0": 1000 } } });
    const { environments } = history.read(ALL, completeAt(SLOT));
    expect(environments.map(({ path }) => path)).toEqual([
      ...Array.from({ length: 24 }, (_, i) => `e${30 - i}/`),
      undefined,
    ]);
    const sum = (2 * 30 * 31) / 2 + 1000;
    expect(environments.reduce((total, { calls }) => total + calls, 0)).toBe(sum);
    expect(environments.reduce((total, { errors }) => total + (errors["X"] ?? 0), 0)).toBe(30 * 99);
  });

  it("clears all samples if the clock is set back by more than a minute", () => {
    const history = new History();
    history.add({ slot: SLOT, scopes: { [GET]: { "0": 7 } } });
    history.add({ slot: SLOT - 5, scopes: { [GET]: { "0": 3 } } });
    expect(history.read(ALL, completeAt(SLOT)).samples.map(({ calls }) => calls)).toEqual([3, 0, 0, 0, 0, 7]);
    history.add({ slot: SLOT - 100, scopes: { [GET]: { "0": 1 } } });
    expect(history.read(ALL, completeAt(SLOT - 100)).samples.map(({ calls }) => calls)).toEqual([1]);
  });
});

it("estimates quantiles like Prometheus", () => {
  const counts = (...pairs: readonly (readonly [number, number])[]) => {
    const list = new Array<number>(13).fill(0);
    for (const [i, count] of pairs) list[i] = count;
    return list;
  };
  expect(quantileOf(counts(), 0.5)).toBeUndefined();
  expect(quantileOf(counts([0, 4]), 0.5)).toBeCloseTo(0.00025, 9);
  expect(quantileOf(counts([3, 98], [6, 2]), 0.99)).toBeCloseTo(0.0375, 9);
  expect(quantileOf(counts([12, 1]), 0.99)).toBe(2.5);
});
