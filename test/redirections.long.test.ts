import { Code, ConnectError } from "@connectrpc/connect";
import { closeLater } from "@user-group-service/testing/opened";
import { repeat } from "@user-group-service/testing/repeat";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { planFailover } from "./support/failover.ts";
import { Network } from "./support/network.ts";
import { describeWithRedis, newCluster, newServer } from "./support/opened.ts";
import { ask, type TestRedis } from "./support/redis.ts";
import { grpcClients } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

/** Matches the error codes with which nodes of a Cluster refuse commands. */
const REFUSALS = /(?<=^|\r\n)-(?=(?:MOVED|ASK|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|LOADING|READONLY) )/g;

/** Creates a Cluster whose nodes write `-ERR` before every error code, as some managed services and proxies do. */
async function newPrefixingCluster(nodeTimeoutMs: number) {
  const network = new Network();
  closeLater(() => network.close());
  network.disturb({
    rewrite: (answer) => Buffer.from(answer.toString("latin1").replace(REFUSALS, "-ERR "), "latin1"),
  });
  const cluster = await newCluster({ nodeTimeoutMs, network });
  return { ...cluster, nodes: cluster.nodes as [TestRedis, TestRedis, TestRedis, TestRedis, TestRedis, TestRedis] };
}

const IDS = Array.from({ length: 60 }, (_, i) => `group ${i}`);

function beginLoad(server: TestServer) {
  const { groups } = grpcClients(server);
  const load = { calls: 0, failures: new Map<string, number>(), end: () => repeated.end() };
  let next = 0;
  const call = async (made: Promise<unknown>) => {
    load.calls++;
    await made.catch((error: unknown) => {
      const text = failureText(ConnectError.from(error));
      load.failures.set(text, (load.failures.get(text) ?? 0) + 1);
    });
  };
  const loop = async () => {
    const userGroupId = IDS[next++ % IDS.length] ?? "";
    await call(groups.getUserGroup({ userGroupId }));
    await call(groups.updateUserGroup({ userGroupId, name: `name ${next}` }));
  };
  const repeated = repeat(Array.from({ length: 8 }, () => loop));
  return load;
}

function failureText(error: ConnectError): string {
  const info = error.findDetails(ErrorInfoSchema)[0];
  return [Code[error.code], info?.reason, info?.metadata["outcome"]].filter(Boolean).join(" ");
}

async function slotQuestions(nodes: readonly TestRedis[]): Promise<number> {
  const infos = await Promise.all(nodes.map((node) => ask(node, "INFO", "commandstats")));
  const counts = infos.map((info) => Number(/cmdstat_cluster\|slots:calls=(\d+)/.exec(String(info))?.[1] ?? 0));
  return counts.reduce((sum, count) => sum + count, 0);
}

describeWithRedis.each(RUNTIMES)("a server on %s, if a Cluster prefixes its error codes with ERR,", (runtime) => {
  it("follows the redirection to the new master of a shard", async () => {
    const cluster = await newPrefixingCluster(5000);
    const server = await newServer({ runtime, redisUrl: cluster.url, env: { REDIS_TIMEOUT: "2s" } });
    const load = beginLoad(server);
    await waitFor("every group exists", () => load.calls > 4 * IDS.length);
    const [master, , , replica] = cluster.nodes;
    await planFailover(
      async () => void (await ask(replica, "CLUSTER", "FAILOVER")),
      async () => String(await ask(replica, "INFO", "replication")).includes("role:master"),
    );
    await cluster.whole();
    load.failures.clear();
    const { calls } = load;
    await waitFor("many calls were made", () => load.calls > calls + 20 * IDS.length);
    expect(Object.fromEntries(load.failures)).toEqual({});
    expect(String(await ask(master, "INFO", "replication"))).toContain("role:slave");
    await load.end();
  });

  it("follows the redirection to the node that has the keys of a migrating slot", async () => {
    const cluster = await newPrefixingCluster(5000);
    const server = await newServer({ runtime, redisUrl: cluster.url, env: { REDIS_TIMEOUT: "2s" } });
    const { groups } = grpcClients(server);
    const { userGroup } = await groups.getUserGroup({ userGroupId: "moves" });
    const found = await Promise.all(cluster.nodes.map((node) => ask(node, "KEYS", "*:moves") as Promise<string[]>));
    const key = found.flat()[0] ?? "";
    const move = await cluster.beginMove(key, await cluster.otherThan(key));
    await move.keys();
    const read = async () => (await groups.getUserGroup({ userGroupId: "moves" })).userGroup?.token;
    expect(await read()).toBe(userGroup?.token);
    await move.finish();
    expect(await read()).toBe(userGroup?.token);
    await groups.updateUserGroup({ userGroupId: "moves", name: "moved" });
  });

  it("reports the outcome `not_made` for a change that the Cluster refuses", async () => {
    const cluster = await newPrefixingCluster(1000);
    const server = await newServer({ runtime, redisUrl: cluster.url, env: { REDIS_TIMEOUT: "2s" } });
    const load = beginLoad(server);
    await waitFor("every group exists", () => load.calls > 4 * IDS.length);
    const [master, other, , replica] = cluster.nodes;
    await Promise.all([replica.kill(), master.kill()]);
    await waitFor("the Cluster is down", async () =>
      String(await ask(other, "CLUSTER", "INFO")).includes("cluster_state:fail"),
    );
    // Some calls were in flight during the fault. Their outcome is unknown, so do not check them.
    await load.end();
    const later = beginLoad(server);
    await waitFor("many calls were made", () => later.calls > 4 * IDS.length);
    await later.end();
    expect([...later.failures.keys()]).toEqual(["Unavailable STORE_UNAVAILABLE not_made"]);
  });
});

describeWithRedis("a Cluster in the state fail", () => {
  it("receives CLUSTER SLOTS only a few times a second, even if many calls fail", async () => {
    const cluster = await newCluster({ nodeTimeoutMs: 1000 });
    const server = await newServer({ redisUrl: cluster.url, env: { REDIS_TIMEOUT: "2s" } });
    const load = beginLoad(server);
    await waitFor("every group exists", () => load.calls > 4 * IDS.length);
    const [master, other, third, replica] = cluster.nodes as [TestRedis, TestRedis, TestRedis, TestRedis];
    await Promise.all([replica.kill(), master.kill()]);
    await waitFor("the Cluster is down", async () =>
      String(await ask(other, "CLUSTER", "INFO")).includes("cluster_state:fail"),
    );
    const { calls } = load;
    const [before, began] = [await slotQuestions([other, third]), performance.now()];
    await pause(5000);
    const perSecond = ((await slotQuestions([other, third])) - before) / ((performance.now() - began) / 1000);
    expect(load.calls - calls).toBeGreaterThan(100);
    expect(perSecond).toBeGreaterThan(0);
    expect(perSecond).toBeLessThan(8);
    await load.end();
  });
});
