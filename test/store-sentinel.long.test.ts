import { openRedis } from "./support/open-redis.ts";
import { describeWithRedis, suiteSentinels } from "./support/opened.ts";
import { storeContract } from "./support/store-contract.ts";

describeWithRedis("behind Sentinels", () => {
  const sentinels = suiteSentinels();
  storeContract("Sentinel", () =>
    Promise.all([
      openRedis(sentinels.url, { timeoutMs: 60_000 }),
      openRedis(sentinels.url, { timeoutMs: 60_000, minReplicas: 1 }),
    ]),
  );
});
