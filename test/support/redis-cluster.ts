import { freePort, waitFor } from "@user-group-service/testing/wait";
import { Cluster } from "ioredis";
import { slotOf } from "../../src/store/connection/cluster.ts";
import type { ScriptedRedis } from "../../src/store/connection/connection.ts";
import type { Network } from "./network.ts";
import { ask, startRedis, type TestRedis } from "./redis.ts";

export interface TestCluster {
  readonly url: string;
  readonly nodes: readonly TestRedis[];
  masterOf(key: string): Promise<TestRedis>;
  /** Queries the current masters, and returns a function that maps a key to its master at the time of the query. */
  masters(): Promise<(key: string) => TestRedis>;
  otherThan(key: string): Promise<TestRedis>;
  /**
   * Starts to move the slot of a key to another master. Until `finish`, some keys of the slot can be on the old master,
   * and some on the new master.
   */
  beginMove(key: string, to: TestRedis): Promise<SlotMove>;
  /**
   * Waits until every running node reports that the Cluster is healthy, and until every running master has a connected
   * replica.
   */
  whole(): Promise<void>;
  stop(): Promise<void>;
}

export interface SlotMove {
  /** Moves at most `count` keys of the slot. Default: all keys. @returns the number of keys that were moved */
  keys(count?: number): Promise<number>;
  /** Moves the keys that are still on the old master. Then assigns the slot to the new master. */
  finish(): Promise<void>;
}

const MASTERS = 3;
const SLOTS = 0x4000;

export interface ClusterOptions {
  /** If a master does not answer for this time, in milliseconds, a replica replaces the master. Default 5000. */
  readonly nodeTimeoutMs?: number;
  readonly argsOf?: (node: number) => readonly string[];
  /**
   * A simulated network through which nodes and clients connect. In the network, the names of the nodes are `node 0`,
   * `node 1` and so on. If undefined, nodes and clients connect directly.
   */
  readonly network?: Network | undefined;
}

export async function startCluster({
  nodeTimeoutMs = 5000,
  argsOf = () => [],
  network,
}: ClusterOptions = {}): Promise<TestCluster> {
  // The nodes, by the port that clients connect to.
  const known = new Map<number, TestRedis>();
  const start = async (i: number) => {
    const busPort = await freePort();
    const place = network && (await placeIn(network, `node ${i}`, busPort));
    const node = await startRedis([
      ...["--cluster-enabled", "yes", "--cluster-port", String(busPort)],
      ...["--cluster-node-timeout", String(nodeTimeoutMs), "--repl-diskless-sync-delay", "0"],
      ...["--cluster-allow-replica-migration", "no", ...(place?.args ?? []), ...argsOf(i)],
    ]);
    place?.link.leadTo(node.port);
    known.set(place?.link.port ?? node.port, node);
    return node;
  };
  const nodes: TestRedis[] = [];
  const stop = async () => void (await Promise.all(nodes.map((node) => node.stop())));
  try {
    nodes.push(...(await Promise.all(Array.from({ length: 2 * MASTERS }, (_, i) => start(i)))));
    await join(nodes);
  } catch (error) {
    await stop();
    throw error;
  }
  const slots = () => firstAnswer(nodes, (node) => ask(node, "CLUSTER", "SLOTS") as Promise<SlotRow[]>);
  const nodeAt = (port: number | undefined) => known.get(port ?? 0) as TestRedis;
  const masters = async () => {
    const rows = await slots();
    return (key: string) => {
      const slot = slotOf(key);
      return nodeAt(rows.find(([first, last]) => first <= slot && slot <= last)?.[2][1]);
    };
  };
  const masterOf = async (key: string) => (await masters())(key);
  const whole = () => waitUntilWhole(nodes);
  await whole();
  return {
    url: `redis-cluster://${[...known.keys()].slice(0, 2).map((port) => `127.0.0.1:${port}`)}`,
    nodes,
    masterOf,
    masters,
    otherThan: async (key) => {
      const master = await masterOf(key);
      const other = (await slots()).map(([, , [, port]]) => nodeAt(port)).find((node) => node !== master);
      return other as TestRedis;
    },
    beginMove: async (key, to) => beginMove(slotOf(key), await masterOf(key), to, nodes),
    whole,
    stop,
  };
}

/**
 * Opens a link to the port of a node, and a link to its bus port.
 *
 * @returns the link to the port, and arguments of redis-server. With these arguments, the node connects from its
 * address in the network, and announces the ports of the two links as its own ports
 */
async function placeIn(network: Network, name: string, busPort: number) {
  const [link, bus] = await Promise.all([network.open(name), network.open(name)]);
  bus.leadTo(busPort);
  const args = [
    ...["--bind-source-addr", network.addressOf(name), "--cluster-announce-ip", "127.0.0.1"],
    ...["--cluster-announce-port", String(link.port), "--cluster-announce-bus-port", String(bus.port)],
  ];
  return { link, args };
}

/** The first and the last slot of a range, and the nodes that serve the range. The first node is the master. */
type SlotRow = readonly [number, number, readonly [string, number, string], ...unknown[]];

async function join(nodes: readonly TestRedis[]): Promise<void> {
  const [first] = nodes as [TestRedis];
  const settings = (await ask(first, "CONFIG", "GET", "*port*")) as string[];
  const setting = (name: string) => settings[settings.indexOf(name) + 1] ?? "0";
  const announced = (name: string, otherwise: string) =>
    setting(`cluster-announce-${name}`) === "0" ? otherwise : setting(`cluster-announce-${name}`);
  // If the nodes use TLS, they contact each other at the TLS port.
  const port = announced("port", setting("tls-port") === "0" ? setting("port") : setting("tls-port"));
  const busPort = announced("bus-port", setting("cluster-port"));
  for (const [i, node] of nodes.entries()) {
    await ask(node, "CLUSTER", "SET-CONFIG-EPOCH", String(i + 1));
    if (node !== first) await ask(node, "CLUSTER", "MEET", "127.0.0.1", port, busPort);
    if (i >= MASTERS) continue;
    const range = [Math.floor((i * SLOTS) / MASTERS), Math.floor(((i + 1) * SLOTS) / MASTERS) - 1];
    await ask(node, "CLUSTER", "ADDSLOTSRANGE", ...range.map(String));
  }
  const ids = (await Promise.all(nodes.map((node) => ask(node, "CLUSTER", "MYID")))) as string[];
  for (const [i, node] of nodes.entries()) {
    const master = ids[i - MASTERS];
    if (master === undefined) continue;
    await waitFor("a replica has its master", () => ask(node, "CLUSTER", "REPLICATE", master).catch(() => undefined));
  }
}

async function waitUntilWhole(nodes: readonly TestRedis[]): Promise<void> {
  const running = nodes.filter((node) => node.isRunning());
  await waitFor("the Cluster is healthy", async () => {
    const states = await Promise.all(running.map((node) => isWhole(node).catch(() => false)));
    const views = await Promise.all(
      running.map(async (node) =>
        JSON.stringify(await ask(node, "CLUSTER", "SLOTS")).replace(/"(?:ip|hostname)"/g, ""),
      ),
    );
    return states.every(Boolean) && new Set(views.map((view) => view.length)).size === 1;
  });
}

async function isWhole(node: TestRedis): Promise<boolean> {
  const [info, replication] = (await Promise.all([
    ask(node, "CLUSTER", "INFO"),
    ask(node, "INFO", "replication"),
  ])) as string[];
  if (!info?.includes("cluster_state:ok") || !info.includes(`cluster_size:${MASTERS}`)) return false;
  return Boolean(
    replication?.includes("role:master")
      ? replication.includes("state=online")
      : replication?.includes("master_link_status:up"),
  );
}

async function beginMove(slot: number, from: TestRedis, to: TestRedis, nodes: readonly TestRedis[]): Promise<SlotMove> {
  const [fromId, toId] = (await Promise.all([from, to].map((node) => ask(node, "CLUSTER", "MYID")))) as [
    string,
    string,
  ];
  await ask(to, "CLUSTER", "SETSLOT", String(slot), "IMPORTING", fromId);
  await ask(from, "CLUSTER", "SETSLOT", String(slot), "MIGRATING", toId);
  const keys = async (count = 1_000_000) => {
    const found = (await ask(from, "CLUSTER", "GETKEYSINSLOT", String(slot), String(count))) as string[];
    if (found.length > 0) await ask(from, "MIGRATE", "127.0.0.1", String(to.port), "", "0", "5000", "KEYS", ...found);
    return found.length;
  };
  const finish = async () => {
    while ((await keys()) > 0);
    const ids = (await firstAnswer([from], (node) => ask(node, "CLUSTER", "NODES"))) as string;
    // The new assignment of the slot must reach the new master before it reaches another node.
    const others = nodes.filter((node) => node !== to && node !== from && node.isRunning() && isMaster(ids, node));
    for (const node of [to, from, ...others]) await ask(node, "CLUSTER", "SETSLOT", String(slot), "NODE", toId);
  };
  return { keys, finish };
}

function isMaster(nodes: string, { port }: TestRedis): boolean {
  return nodes
    .split("\n")
    .some((line) => line.includes(`:${port}@`) && line.includes("master") && !line.includes("fail"));
}

async function firstAnswer<T>(nodes: readonly TestRedis[], question: (node: TestRedis) => Promise<T>): Promise<T> {
  return Promise.any(nodes.filter((node) => node.isRunning()).map(question));
}

/** Connects to all nodes of a Cluster, like an operator. */
export function clusterOperator({ nodes }: Pick<TestCluster, "nodes">): ScriptedRedis & { disconnect(): void } {
  const cluster = new Cluster(nodes.map(({ port }) => ({ host: "127.0.0.1", port })));
  cluster.on("error", () => {});
  const keys = async (pattern: string) =>
    (await Promise.all(cluster.nodes("master").map((node) => node.keys(pattern)))).flat();
  const runScript: ScriptedRedis["runScript"] = ({ lua }, args) => cluster.eval(lua, ...(args as [string]));
  return Object.assign(cluster, { keys, runScript }) as unknown as ScriptedRedis;
}
