import { openRedis } from "../src/store/redis/open.ts";
import { describeWithRedis, forSuite, suiteCluster } from "./support/opened.ts";
import { clusterOperator } from "./support/redis-cluster.ts";
import { storeContract } from "./support/store-contract.ts";

describeWithRedis("on a Cluster", () => {
  const cluster = suiteCluster();
  const operator = forSuite(
    () => clusterOperator(cluster),
    (opened) => opened.disconnect(),
  );
  const open = () =>
    Promise.all([
      openRedis(cluster.url, { timeoutMs: 60_000 }),
      openRedis(cluster.url, { timeoutMs: 60_000, minReplicas: 1 }),
    ]);
  storeContract("Cluster", open, { operator: () => operator });
});
