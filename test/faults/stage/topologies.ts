import { closeLater } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { Network } from "../../support/network.ts";
import { newCluster, newRedis, newSentinels } from "../../support/opened.ts";
import { ask, type TestRedis } from "../../support/redis.ts";
import type { SlotMove } from "../../support/redis-cluster.ts";

/** Names of the topologies of Redis. */
export type TopologyName = "one node" | "Sentinels" | "a Cluster";

/** Redis in one of its topologies, as the target of a fault. */
export interface Topology {
  readonly url: string;
  readonly nodes: readonly TestRedis[];
  readonly network: Network;
  /** Name of a node in the network. */
  nameOf(node: TestRedis): string;
  /** The master of a key. */
  master(key: string): Promise<TestRedis>;
  /** The current masters of all keys. */
  masters(): Promise<(key: string) => TestRedis>;
  /** Waits until every running node is up, and every master has its replicas. */
  whole(): Promise<unknown>;
  /** Replaces the healthy master of a key. */
  failOver(key: string): Promise<void>;
  /** Starts to move the slot of a key to another master of a Cluster. */
  beginMove(key: string): Promise<SlotMove>;
}

/** Configuration of a topology. */
export interface TopologyOptions {
  /** Whether all traffic passes a network that can be cut and disturbed. */
  readonly isNetworked: boolean;
  /** Number of replicas that must confirm a change. */
  readonly minReplicas: number;
  /** Time without an answer after which a master is replaced, in milliseconds. */
  readonly downAfterMs: number;
  /** `appendfsync` of the nodes of Sentinel and Cluster. */
  readonly fsync: "everysec" | "always";
}

/** The settings of the operations guide, except that a master notices a missing replica after 2 s, not 10 s. */
function argsOf({ minReplicas, fsync }: TopologyOptions): string[] {
  const kept = ["--appendonly", "yes", "--appendfsync", fsync, "--maxmemory-policy", "noeviction"];
  return minReplicas === 0 ? kept : [...kept, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];
}

/** Starts Redis in a topology for the current test. */
export async function newTopology(name: TopologyName, options: TopologyOptions): Promise<Topology> {
  const network = new Network();
  closeLater(() => network.close());
  const topology = await STARTERS[name]({ ...options, network });
  return { ...topology, network, nameOf: (node) => `node ${topology.nodes.indexOf(node)}` };
}

type Started = Omit<Topology, "network" | "nameOf">;

function notHere(): never {
  throw new Error("this topology of Redis cannot do that");
}

const STARTERS: {
  readonly [name in TopologyName]: (options: TopologyOptions & { network: Network }) => Promise<Started>;
} = {
  "one node": async ({ isNetworked, network }) => {
    // With `everysec`, Redis may hold writes back for up to 2 s, and a kill in that time would lose them.
    const node = await newRedis(["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"]);
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

/** Background work of nodes. When it starts, a node may stop answering for longer than the timeout of a call. */
const BUSY = /^(loading|rdb_bgsave_in_progress|aof_rewrite_(in_progress|scheduled)|aof_pending_bio_fsync):[^0]/m;

/** Waits until no running node saves, loads or rewrites data. */
export async function idle(nodes: readonly TestRedis[]): Promise<void> {
  await waitFor("Redis is idle", async () => {
    const running = nodes.filter((node) => node.isRunning());
    const infos = await Promise.all(running.map((node) => ask(node, "INFO", "persistence").catch(() => "loading:1")));
    return !infos.some((info) => BUSY.test(info as string));
  });
}

/** Returns a replica of a master. */
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

/** A master and its replicas share one replication id. */
function replicationId(info: string): string | undefined {
  return /^master_replid:(\w+)/m.exec(info)?.[1];
}
