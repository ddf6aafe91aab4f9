import { closeLater } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { Network } from "../../support/network.ts";
import { newCluster, newRedis, newSentinels } from "../../support/opened.ts";
import { ask, DURABLE, type TestRedis } from "../../support/redis.ts";
import type { SlotMove } from "../../support/redis-cluster.ts";

export type TopologyName = "one node" | "Sentinels" | "a Cluster";

/** A running Redis in one of the topologies. */
export interface Topology {
  readonly url: string;
  readonly nodes: readonly TestRedis[];
  readonly network: Network;
  nameOf(node: TestRedis): string;
  master(key: string): Promise<TestRedis>;
  /** Queries the current masters, and returns a function that maps a key to its master at the time of the query. */
  masters(): Promise<(key: string) => TestRedis>;
  /** Waits until every running node answers, and until every master has its replicas. */
  whole(): Promise<unknown>;
  /** Makes Redis replace the master of a key, although the master is healthy. */
  failOver(key: string): Promise<void>;
  /** Starts to move the slot of a key to another master. Works only in a Cluster. */
  beginMove(key: string): Promise<SlotMove>;
}

export interface TopologyOptions {
  /** Whether all connections pass through a simulated network that a test can cut and disturb. */
  readonly isNetworked: boolean;
  readonly minReplicas: number;
  readonly downAfterMs: number;
  /** Redis' setting `appendfsync`, for Sentinel and Cluster. */
  readonly fsync: "everysec" | "always";
}

/**
 * Returns the settings of the operations guide. Only one setting differs: a master detects a missing replica after 2 s,
 * not 10 s.
 */
function argsOf({ minReplicas, fsync }: TopologyOptions): string[] {
  const kept = ["--appendonly", "yes", "--appendfsync", fsync, "--maxmemory-policy", "noeviction"];
  return minReplicas === 0 ? kept : [...kept, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];
}

/** Starts Redis in a topology, and stops Redis after the test. */
export async function newTopology(name: TopologyName, options: TopologyOptions): Promise<Topology> {
  const network = new Network();
  closeLater(() => network.close());
  const topology = await STARTERS[name]({ ...options, network });
  return { ...topology, network, nameOf: (node) => `node ${topology.nodes.indexOf(node)}` };
}

type Started = Omit<Topology, "network" | "nameOf">;

function notHere(): never {
  throw new Error("this topology of Redis does not support this fault");
}

const STARTERS: {
  readonly [name in TopologyName]: (options: TopologyOptions & { network: Network }) => Promise<Started>;
} = {
  "one node": async ({ isNetworked, network }) => {
    // With the default, `everysec`, Redis may write a change to disk up to 2 s later. If the node were killed in that
    // time, the change would be lost.
    const node = await newRedis([...DURABLE, "--enable-debug-command", "yes"]);
    const link = isNetworked ? await network.open("node 0") : undefined;
    link?.leadTo(node.port);
    return {
      url: `redis://127.0.0.1:${link?.port ?? node.port}`,
      nodes: [node],
      master: async () => node,
      masters: async () => () => node,
      whole: () => waitFor("Redis answers", () => ask(node, "PING").catch(() => false)),
      failOver: notHere,
      beginMove: notHere,
    };
  },
  Sentinels: async (options) => {
    const { isNetworked, network, downAfterMs } = options;
    const sentinels = await newSentinels({
      downAfterMs,
      args: argsOf(options),
      network: isNetworked ? network : undefined,
    });
    const masters = async () => {
      const master = await sentinels.master();
      return () => master;
    };
    return { ...sentinels, masters, beginMove: notHere };
  },
  "a Cluster": async (options) => {
    const { isNetworked, network, downAfterMs } = options;
    const args = [...argsOf(options), "--cluster-require-full-coverage", "no"];
    const cluster = await newCluster({
      nodeTimeoutMs: downAfterMs,
      argsOf: () => args,
      network: isNetworked ? network : undefined,
    });
    return {
      ...cluster,
      master: cluster.masterOf,
      failOver: async (key) => {
        const replica = await replicaOf(cluster.nodes, await cluster.masterOf(key));
        await ask(replica, "CLUSTER", "FAILOVER");
      },
      beginMove: async (key) => cluster.beginMove(key, await cluster.otherThan(key)),
    };
  },
};

/**
 * Matches background work in the output of `INFO`. When a node starts such work, the node may stop answering for longer
 * than the timeout of a call.
 */
const BUSY = /^(loading|rdb_bgsave_in_progress|aof_rewrite_(in_progress|scheduled)|aof_pending_bio_fsync):[^0]/m;

/** Waits until no running node is saving, loading or rewriting its data. */
export async function idle(nodes: readonly TestRedis[]): Promise<void> {
  await waitFor("Redis is idle", async () => {
    const running = nodes.filter((node) => node.isRunning());
    const infos = await Promise.all(running.map((node) => ask(node, "INFO", "persistence").catch(() => "loading:1")));
    return !infos.some((info) => BUSY.test(info as string));
  });
}

export async function replicaOf(nodes: readonly TestRedis[], master: TestRedis): Promise<TestRedis> {
  const masterId = await idOf(master);
  return waitFor("the master has a replica", async () => {
    for (const node of nodes) {
      if (node === master || !node.isRunning()) continue;
      const info = (await ask(node, "INFO", "replication").catch(() => "")) as string;
      if (info.includes("role:slave") && replicationId(info) === masterId) return node;
    }
    return undefined;
  });
}

async function idOf(node: TestRedis): Promise<string | undefined> {
  return replicationId((await ask(node, "INFO", "replication")) as string);
}

/** Returns the replication id, which is the same on a master and its replicas. */
function replicationId(info: string): string | undefined {
  return /^master_replid:(\w+)/m.exec(info)?.[1];
}
