import { afterAll, beforeAll, describe, inject } from "vitest";
import { openRedis } from "../src/store/client.ts";
import { openEmbedded } from "../src/store/embedded.ts";
import { startRedis, type TestRedis } from "./support/redis.ts";
import { storeContract } from "./support/store-contract.ts";

storeContract("embedded", async () => [await openEmbedded({ timeoutMs: 10_000 })], { typed: false });

describe.skipIf(inject("redisUrl") === undefined)("on a Redis of its own", () => {
  let redis: TestRedis;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.stop());
  storeContract("Redis", () =>
    Promise.all([openRedis(redis.url, { timeoutMs: 10_000 }), openRedis(redis.url, { timeoutMs: 10_000 })]),
  );
});
