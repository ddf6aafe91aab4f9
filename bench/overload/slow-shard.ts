import { ask, type TestRedis } from "../../test/support/redis.ts";
import type { TestCluster } from "../../test/support/redis-cluster.ts";
import { table, whole } from "../report.ts";
import type { BenchServer } from "../servers.ts";
import { openLoop, REST_HTTP2, readsOf, run } from "./load.ts";
import { ms, timeOf } from "./offered.ts";

/**
 * The environments of this benchmark. Each environment is on a random shard. There are twelve, so it is very unlikely
 * that all of them are on one shard.
 */
const TENANTS = Array.from({ length: 12 }, (_, i) => ({
  environment: `tenant-${i}`,
  token: `bench-dGVuYW50LW9mLXRoZS1iZW5jaA-${i}`,
}));

export const TENANT_TOKENS = TENANTS.map(({ environment, token }) => `${environment}/Customer=${token}`);

/**
 * Measures reads in two environments at the same time. One environment is on a slow shard, and the other environment is
 * on a normal shard.
 *
 * @param perSecond rate of the load on each of the two environments
 */
export async function slowShard(
  cluster: TestCluster,
  server: BenchServer,
  { folder, seconds, perSecond }: { readonly folder: string; readonly seconds: number; readonly perSecond: number },
): Promise<string> {
  for (const { environment, token } of TENANTS) await timeOf(server, environment, token);
  const slow = cluster.nodes[0] as TestRedis;
  const keys = (await ask(slow, "KEYS", "ug:{*}:group:tenant-*")) as string[];
  const isThere = ({ environment }: (typeof TENANTS)[number]) => keys.some((key) => key.endsWith(`:${environment}`));
  const pair = [TENANTS.find(isThere), TENANTS.find((tenant) => !isThere(tenant))];
  const both = await Promise.all(
    pair.map(async (tenant) => {
      if (!tenant)
        throw new Error("either all environments are on the slow shard, or none is: run the benchmark again");
      const { environment: group, token } = tenant;
      const reads = await readsOf(REST_HTTP2, server.url(2), { groups: [group], folder, name: group });
      return { ...reads, headers: { authorization: `Token ${token}` } };
    }),
  );
  const states: readonly [string, () => () => Promise<unknown>][] = [
    ["healthy", () => async () => {}],
    ["pauses for 400 ms, twice a second", () => pauseAgainAndAgain(slow)],
    [
      "frozen",
      () => {
        slow.freeze();
        return async () => slow.thaw();
      },
    ],
  ];
  const lines: string[][] = [];
  for (const [title, begin] of states) {
    const end = begin();
    const load = openLoop(2, title, perSecond);
    const outcomes = await Promise.all(both.map((reads) => run(reads, load, seconds)));
    await end();
    const cells = outcomes.flatMap(({ answeredPerSecond, p99, failed, refusedPerSecond }) => [
      whole(answeredPerSecond),
      ms(p99),
      whole(failed + refusedPerSecond * seconds),
    ]);
    lines.push([title, ...cells]);
    console.error(`Cluster, state of a shard: ${title}`);
  }
  const figures = [">answered per second", ">p99, ms", ">failed or refused"];
  const columns = ["its groups", "groups of another shard"].flatMap((whose) =>
    figures.map((text) => text.replace(">", `>${whose}: `)),
  );
  return [
    "## A slow shard",
    `One environment is on the slow shard, another environment on another shard. Each receives ${whole(perSecond)} reads per second:`,
    table(["state of the shard", ...columns], lines),
  ].join("\n\n");
}

/** Pauses a Redis node for 400 ms, twice a second, until the returned function is called. */
function pauseAgainAndAgain(node: TestRedis): () => Promise<unknown> {
  const hold = () => ask(node, "CLIENT", "PAUSE", "400", "ALL").catch(() => {});
  void hold();
  const timer = setInterval(hold, 500);
  return async () => {
    clearInterval(timer);
    await ask(node, "CLIENT", "UNPAUSE");
  };
}
