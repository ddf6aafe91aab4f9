import { openRedis } from "./support/open-redis.ts";
import { describeWithRedis, suiteCluster, suiteClusterOperator } from "./support/opened.ts";
import { storeContract } from "./support/store-contract.ts";

describeWithRedis("on a Cluster", () => {
  const cluster = suiteCluster();
  const operator = suiteClusterOperator(cluster);
  const open = () =>
    Promise.all([
      openRedis(cluster.url, { timeoutMs: 60_000 }),
      openRedis(cluster.url, { timeoutMs: 60_000, minReplicas: 1 }),
    ]);
  storeContract("Cluster", open, { operator: () => operator });
});
