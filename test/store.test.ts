import { forSuite } from "@user-group-service/testing/opened";
import { openRedis } from "./support/open-redis.ts";
import { describeWithRedis, suiteRedis } from "./support/opened.ts";
import { redisOf } from "./support/redis-of.ts";
import { documentedRights, withRights } from "./support/rights.ts";
import { storeContract } from "./support/store-contract.ts";

describeWithRedis("a Redis user with only the documented rights", () => {
  const redis = suiteRedis();
  const operator = forSuite(
    async () => redisOf(await openRedis(redis.url, { timeoutMs: 60_000 })),
    (opened) => opened.disconnect(),
  );
  // The Redis user has only the rights that the docs recommend, so the tests fail if the service needs another right.
  const open = async () => {
    const url = await withRights(redis, documentedRights());
    return Promise.all([openRedis(url, { timeoutMs: 60_000 }), openRedis(url, { timeoutMs: 10_000 })]);
  };
  storeContract("Redis", open, { operator: () => operator });
});
