import { describe, inject } from "vitest";
import { openRedis } from "../src/store/client.ts";
import { openEmbedded } from "../src/store/embedded.ts";
import { suiteRedis } from "./support/opened.ts";
import { storeContract } from "./support/store-contract.ts";

storeContract("embedded", async () => [await openEmbedded({ timeoutMs: 10_000 })], { typed: false });

describe.skipIf(inject("redisUrl") === undefined)("on a Redis of its own", () => {
  const redis = suiteRedis();
  storeContract("Redis", () =>
    Promise.all([openRedis(redis.url, { timeoutMs: 10_000 }), openRedis(redis.url, { timeoutMs: 10_000 })]),
  );
});
