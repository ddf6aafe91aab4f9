import { randomBytes } from "node:crypto";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { RateLimiter } from "../src/auth/rate-limiter.ts";
import type { RateCounter } from "../src/domain/store.ts";
import type { StoreClient } from "../src/store/connection/client.ts";
import { slotOf } from "../src/store/connection/cluster.ts";
import { rateCounter } from "../src/store/rate-counter.ts";
import {
  describeWithRedis,
  newOperator,
  newRedis,
  newStoreClient,
  suiteCluster,
  suiteRedis,
  suiteSentinels,
} from "./support/opened.ts";

const LIMIT = { max: 10, windowSeconds: 60 };
const newKind = () => `test-${randomBytes(6).toString("hex")}`;

async function expectShared(counters: readonly RateCounter[]): Promise<void> {
  // The test uses many keys, so that every node of a Cluster has keys.
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

describeWithRedis("rate limits with Redis", () => {
  const redis = suiteRedis();

  it("rate limit counts are shared by all workers, and expire at the end of their time window", async () => {
    const kind = newKind();
    const clients = [await newStoreClient(redis), await newStoreClient(redis)];
    await expectShared(clients.map((client) => rateCounter(client, { kind, limit: LIMIT })));
    const operator = newOperator(redis);
    expect(await operator.get(`ug:rate:${kind}:key 0`)).toBe("4");
    const left = await operator.pttl(`ug:rate:${kind}:key 0`);
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(60_000);
    // The first call begins a window of one second. Later calls do not extend this window, so a new window begins.
    const short = rateCounter(clients[0] as StoreClient, { kind: newKind(), limit: { max: 1, windowSeconds: 1 } });
    await short.add("a", 5);
    await waitFor("the next window has begun", async () => (await short.add("a", 1)).total === 1);
  });

  it("a rate limit count that an operator has set without an expiry time receives an expiry time", async () => {
    const kind = newKind();
    const operator = newOperator(redis);
    await operator.set(`ug:rate:${kind}:a`, "41");
    const counter = rateCounter(await newStoreClient(redis), { kind, limit: LIMIT });
    expect(await counter.add("a", 1)).toEqual({ total: 42, resetMs: 60_000 });
    expect(await operator.pttl(`ug:rate:${kind}:a`)).toBeGreaterThan(0);
  });

  it("rate limit counts continue in process memory while Redis is unavailable, and in Redis afterwards", async () => {
    const own = await newRedis();
    const kind = newKind();
    const client = await newStoreClient(own, { timeoutMs: 500 });
    const counter = rateCounter(client, { kind, limit: LIMIT });
    const limiter = new RateLimiter({ limit: LIMIT, counter });
    const takes = (key: string, times: number) =>
      Array.from({ length: times }, () => limiter.take(key) === undefined).filter(Boolean).length;
    const operator = newOperator(own);
    await operator.hset(`ug:rate:${kind}:broken`, "of", "another type");
    await expect(counter.add("broken", 3)).rejects.toThrow();
    expect(takes("broken", 11)).toBe(10);
    expect(takes("a", 2)).toBe(2);
    await waitFor("Redis has counted", async () => (await operator.get(`ug:rate:${kind}:a`)) === "2");
    own.freeze();
    expect(takes("a", 4)).toBe(4);
    own.thaw();
    await own.kill();
    // Redis is down. The counter continues with the last count that it has received from Redis.
    expect(takes("a", 5)).toBe(4);
    await own.restart();
    const again = newOperator(own);
    await waitFor("Redis counts again", async () => {
      await counter.add("b", 1).catch(() => {});
      return (await again.get(`ug:rate:${kind}:b`)) !== null;
    });
  });
});

describeWithRedis("rate limits with a Cluster", () => {
  const cluster = suiteCluster();

  it("rate limit counts are shared by all workers, on any node", async () => {
    const kind = newKind();
    const clients = [await newStoreClient(cluster), await newStoreClient(cluster)];
    await expectShared(clients.map((client) => rateCounter(client, { kind, limit: LIMIT })));
    const slots = new Set(Array.from({ length: 30 }, (_, i) => slotOf(`ug:rate:${kind}:key ${i}`)));
    expect(slots.size).toBeGreaterThan(20);
  });
});

describeWithRedis("rate limits with Sentinels", () => {
  const sentinels = suiteSentinels();

  it("rate limit counts are shared by all workers", async () => {
    const kind = newKind();
    const clients = [await newStoreClient(sentinels), await newStoreClient(sentinels)];
    await expectShared(clients.map((client) => rateCounter(client, { kind, limit: LIMIT })));
  });
});
