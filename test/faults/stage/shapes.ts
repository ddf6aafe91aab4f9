import { closeLater } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { Network } from "../../support/network.ts";
import { newCluster, newRedis, newSentinels } from "../../support/opened.ts";
import { ask, type TestRedis } from "../../support/redis.ts";
import type { SlotMove } from "../../support/redis-cluster.ts";

/** The names of the shapes that Redis has here. */
export type ShapeName = "one node" | "Sentinels" | "a Cluster";

/** Redis in one of its shapes, for a fault to come over. */
export interface Shape {
  readonly url: string;
  readonly nodes: readonly TestRedis[];
  readonly network: Network;
  /** The name of a node in the network. */
  nameOf(node: TestRedis): string;
  /** The master that has a key. */
  master(key: string): Promise<TestRedis>;
  /** The masters of all keys, as of now. */
  masters(): Promise<(key: string) => TestRedis>;
  /** Waits until every node that runs is well, and every master has its replicas. */
  whole(): Promise<unknown>;
  /** Replaces the master of a key though it is well. */
  failOver(key: string): Promise<void>;
  /** Begins to move the slot of a key to another master of a Cluster. */
  beginMove(key: string): Promise<SlotMove>;
}

/** How a shape is set up. */
export interface ShapeOptions {
  /** Whether all that passes, passes a network that can be cut and disturbed. */
  readonly isNetworked: boolean;
  /** How many replicas confirm a change. */
  readonly minReplicas: number;
  /** After how many milliseconds without an answer a master is replaced. */
  readonly downAfterMs: number;
  /** When nodes of Sentinels and of a Cluster write to disk. */
  readonly fsync: "everysec" | "always";
}

/** As the operator's guide wants it. A replica is noticed to be away after 2 s, not 10, so that it is seen here. */
function argsOf({ minReplicas, fsync }: ShapeOptions): string[] {
  const kept = ["--appendonly", "yes", "--appendfsync", fsync, "--maxmemory-policy", "noeviction"];
  return minReplicas === 0 ? kept : [...kept, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];
}

/** Starts Redis in a shape for the running test. */
export async function newShape(name: ShapeName, options: ShapeOptions): Promise<Shape> {
  const network = new Network();
  closeLater(() => network.close());
  const shape = await STARTERS[name]({ ...options, network });
  return { ...shape, network, nameOf: (node) => `node ${shape.nodes.indexOf(node)}` };
}

type Started = Omit<Shape, "network" | "nameOf">;

function notHere(): never {
  throw new Error("this shape of Redis cannot do that");
}

const STARTERS: { readonly [name in ShapeName]: (options: ShapeOptions & { network: Network }) => Promise<Started> } = {
  "one node": async ({ isNetworked, network }) => {
    // Redis may hold back what is to be written for up to 2 s while `everysec` is under way, and be killed then.
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

/** What nodes do beside commands: meanwhile, and as it begins, one may stand still for longer than a call may take. */
const BUSY = /^(loading|rdb_bgsave_in_progress|aof_rewrite_(in_progress|scheduled)|aof_pending_bio_fsync):[^0]/m;

/** Waits until the nodes that run save, load and rewrite nothing. */
export async function idle(nodes: readonly TestRedis[]): Promise<void> {
  await waitFor("Redis is idle", async () => {
    const running = nodes.filter((node) => node.isRunning());
    const infos = await Promise.all(running.map((node) => ask(node, "INFO", "persistence").catch(() => "loading:1")));
    return !infos.some((info) => BUSY.test(info as string));
  });
}

/** A replica that a master has. */
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

/** A master and its replicas have one id of what they replicate. */
function replicationId(info: string): string | undefined {
  return /^master_replid:(\w+)/m.exec(info)?.[1];
}
