import { openEmbedded } from "../src/store/embedded.ts";
import { openRedis } from "../src/store/open.ts";
import { describeWithRedis, suiteRedis } from "./support/opened.ts";
import { storeContract } from "./support/store-contract.ts";

storeContract("embedded", async () => [await openEmbedded({ timeoutMs: 60_000 })], { typed: false });

describeWithRedis("on a Redis of its own", () => {
  const redis = suiteRedis();
  storeContract("Redis", () =>
    Promise.all([openRedis(redis.url, { timeoutMs: 60_000 }), openRedis(redis.url, { timeoutMs: 10_000 })]),
  );
});
