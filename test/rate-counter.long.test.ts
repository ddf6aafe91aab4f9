import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { RateCounter } from "../src/domain/store.ts";
import { rateCounter } from "../src/store/rate-counter.ts";
import { slotOf } from "../src/store/redis/cluster.ts";
import {
  describeWithRedis,
  newOperator,
  newRedis,
  newStoreClient,
  suiteCluster,
  suiteRedis,
  suiteSentinels,
} from "./support/opened.ts";
import { waitFor } from "./support/wait.ts";

const LIMIT = { max: 10, windowSeconds: 60 };
const newKind = () => `test-${randomBytes(6).toString("hex")}`;

/** Asserts that the counters of several workers count together. */
async function expectShared(counters: readonly RateCounter[]): Promise<void> {
  // Many keys, so that they are in every node of a Cluster.
  for (let i = 0; i < 30; i++) {
    const totals = await Promise.all(counters.map(async (counter, w) => (await counter.add(`key ${i}`, w + 1)).total));
    const amount = (counters.length * (counters.length + 1)) / 2;
    expect(Math.max(...totals)).toBe(amount);
    const { total, resetMs } = await (counters[0] as RateCounter).add(`key ${i}`, 1);
    expect(total).toBe(amount + 1);
    expect(resetMs).toBeGreaterThan(0);
    expect(resetMs).toBeLessThanOrEqual(60_000);
  }
}

describeWithRedis("counts in Redis", () => {
  const redis = suiteRedis();

  it("are those of all workers together, and end with their window", async () => {
    const kind = newKind();
    const clients = [await newStoreClient(redis), await newStoreClient(redis)];
    await expectShared(clients.map((client) => rateCounter(client, { kind, limit: LIMIT })));
    const operator = newOperator(redis);
    expect(await operator.get(`ug:rate:${kind}:key 0`)).toBe("4");
    const left = await operator.pttl(`ug:rate:${kind}:key 0`);
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(60_000);
    // The window is that of the first: it is not made longer by what is counted in it.
    const short = rateCounter(clients[0], { kind: newKind(), limit: { max: 1, windowSeconds: 1 } });
    await short.add("a", 5);
    await waitFor("another window has begun", async () => (await short.add("a", 1)).total === 1);
  });

  it("that an operator made without an end get one", async () => {
    const kind = newKind();
    const operator = newOperator(redis);
    await operator.set(`ug:rate:${kind}:a`, "41");
    const counter = rateCounter(await newStoreClient(redis), { kind, limit: LIMIT });
    expect(await counter.add("a", 1)).toEqual({ total: 42, resetMs: 60_000 });
    expect(await operator.pttl(`ug:rate:${kind}:a`)).toBeGreaterThan(0);
  });

  it("go on in the memory of the process while Redis cannot count, and in Redis afterwards", async () => {
    const own = await newRedis();
    const kind = newKind();
    const client = await newStoreClient(own, { timeoutMs: 500 });
    const counter = rateCounter(client, { kind, limit: LIMIT });
    expect((await counter.add("a", 2)).total).toBe(2);
    await newOperator(own).hset(`ug:rate:${kind}:broken`, "of", "another type");
    expect((await counter.add("broken", 3)).total).toBe(3);
    own.freeze();
    // It goes on from what Redis told last.
    expect((await counter.add("a", 4)).total).toBe(6);
    own.thaw();
    await own.kill();
    const { total, resetMs } = await counter.add("a", 1);
    expect(total).toBe(7);
    expect(resetMs).toBeLessThanOrEqual(60_000);
    expect(resetMs).toBeGreaterThan(0);
    // What is forgotten leaves no memory behind.
    counter.forget("a");
    expect((await counter.add("a", 1)).total).toBe(1);
    await own.restart();
    const operator = newOperator(own);
    await waitFor("it is Redis again that counts", async () => {
      await counter.add("b", 1);
      return (await operator.get(`ug:rate:${kind}:b`)) !== null;
    });
  });
});

describeWithRedis("counts in a Cluster", () => {
  const cluster = suiteCluster();

  it("are those of all workers together, in whatever node", async () => {
    const kind = newKind();
    const clients = [await newStoreClient(cluster), await newStoreClient(cluster)];
    await expectShared(clients.map((client) => rateCounter(client, { kind, limit: LIMIT })));
    const slots = new Set(Array.from({ length: 30 }, (_, i) => slotOf(`ug:rate:${kind}:key ${i}`)));
    expect(slots.size).toBeGreaterThan(20);
  });
});

describeWithRedis("counts behind Sentinels", () => {
  const sentinels = suiteSentinels();

  it("are those of all workers together", async () => {
    const kind = newKind();
    const clients = [await newStoreClient(sentinels), await newStoreClient(sentinels)];
    await expectShared(clients.map((client) => rateCounter(client, { kind, limit: LIMIT })));
  });
});

describe("counts beside the embedded store", () => {
  it("are in the memory of the process, and end with their window", async () => {
    const counter = rateCounter(undefined, { kind: "test", limit: { max: 1, windowSeconds: 1 } });
    expect((await counter.add("a", 2)).total).toBe(2);
    const { total, resetMs } = await counter.add("a", 3);
    expect(total).toBe(5);
    expect(resetMs).toBeGreaterThan(0);
    expect(resetMs).toBeLessThanOrEqual(1000);
    await waitFor("another window has begun", async () => (await counter.add("a", 1)).total === 1);
  });
});
