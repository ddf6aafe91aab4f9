import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { waitFor } from "@user-group-service/testing/wait";
import type { Network } from "./network.ts";
import { ask, startIn, startRedis, type TestRedis } from "./redis.ts";

/** Name by which Sentinels identify the master. */
export const MASTER = "main.1";

export interface TestSentinels {
  readonly url: string;
  readonly nodes: readonly TestRedis[];
  master(): Promise<TestRedis>;
  /** Makes the Sentinels replace the master, although the master is healthy. */
  failOver(): Promise<void>;
  killSentinels(): Promise<void>;
  /** Waits until all Sentinels agree on the master, and until all running replicas are connected to this master. */
  whole(): Promise<void>;
  stop(): Promise<void>;
}

export interface SentinelOptions {
  /** If the master does not answer for this time, in milliseconds, the Sentinels replace the master. Default 30,000. */
  readonly downAfterMs?: number;
  readonly password?: string | undefined;
  readonly args?: readonly string[];
  /**
   * A simulated network through which nodes, Sentinels and clients connect. In the network, their names are `node 0`,
   * `sentinel 0` and so on. Only connections between two Sentinels do not use the network. If undefined, all
   * connections are direct.
   */
  readonly network?: Network | undefined;
}

export async function startSentinels({
  downAfterMs = 30_000,
  password,
  args = [],
  network,
}: SentinelOptions = {}): Promise<TestSentinels> {
  const nodes: TestRedis[] = [];
  // The nodes, by the port that clients connect to.
  const known = new Map<number, TestRedis>();
  const sentinels: TestRedis[] = [];
  const sentinelPorts: number[] = [];
  const stop = async () => {
    await Promise.all(sentinels.map((sentinel) => sentinel.stop()));
    await Promise.all(nodes.map((node) => node.stop()));
  };
  const askAny = (...words: string[]) =>
    Promise.any(
      sentinels.filter((each) => each.isRunning()).map(({ port }) => ask({ port, password }, "SENTINEL", ...words)),
    );
  const nodeAt = (port: unknown) => known.get(Number(port)) as TestRedis;
  const master = async () => nodeAt(((await askAny("GET-MASTER-ADDR-BY-NAME", MASTER)) as string[])[1]);
  const whole = () =>
    waitFor("Sentinels and replicas are complete", async () => {
      const running = nodes.filter((node) => node.isRunning());
      const views = await Promise.all(
        sentinels.map(async ({ port }) => {
          const about = (await ask({ port, password }, "SENTINEL", "MASTER", MASTER)) as string[];
          const of = (name: string) => about[about.indexOf(name) + 1];
          return {
            port: of("port"),
            isWhole:
              of("flags") === "master" &&
              of("num-other-sentinels") === "2" &&
              Number(of("num-slaves")) >= running.length - 1,
          };
        }),
      );
      if (!views.every(({ isWhole }) => isWhole) || new Set(views.map(({ port }) => port)).size !== 1) return false;
      const replication = (await ask(nodeAt(views[0]?.port), "INFO", "replication")) as string;
      return (
        replication.includes("role:master") && (replication.match(/state=online/g) ?? []).length === running.length - 1
      );
    });
  const start = async (i: number, ...more: string[]) => {
    const name = `node ${i}`;
    const link = await network?.open(name);
    const address = network && link ? addressArgs(network.addressOf(name), link.port) : [];
    const node = await startRedis(["--repl-diskless-sync-delay", "0", ...address, ...more, ...args]);
    link?.leadTo(node.port);
    const port = link?.port ?? node.port;
    known.set(port, node);
    nodes[i] = node;
    return port;
  };
  try {
    const first = await start(0);
    const replicaOf = ["--replicaof", "127.0.0.1", String(first)];
    await Promise.all([start(1, ...replicaOf), start(2, ...replicaOf)]);
    for (let i = 0; i < 3; i++) {
      const name = `sentinel ${i}`;
      const sentinel = await startSentinel(first, { downAfterMs, password }, placeOf(network?.addressOf(name)));
      sentinels.push(sentinel);
      const link = await network?.open(name);
      link?.leadTo(sentinel.port);
      sentinelPorts.push(link?.port ?? sentinel.port);
    }
    await whole();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url: `redis-sentinel://${sentinelPorts.map((port) => `127.0.0.1:${port}`)}/0#${MASTER}`,
    nodes,
    master,
    failOver: async () => void (await ask({ port: sentinels[0]?.port ?? 0, password }, "SENTINEL", "FAILOVER", MASTER)),
    killSentinels: async () => void (await Promise.all(sentinels.map((sentinel) => sentinel.kill()))),
    whole: async () => void (await whole()),
    stop,
  };
}

/** Starts a Sentinel for the master at a port. @param settings additional lines of the Sentinel's configuration file */
export function startSentinel(
  masterPort: number,
  { downAfterMs = 30_000, password }: Pick<SentinelOptions, "downAfterMs" | "password"> = {},
  settings: readonly string[] = [],
): Promise<TestRedis> {
  return startIn((folder, port) => {
    // Sentinel reads this file at the start, and later writes its state into it.
    const file = join(folder, "sentinel.conf");
    const lines = [
      `port ${port}`,
      "bind 127.0.0.1",
      `dir ${folder}`,
      `sentinel monitor ${MASTER} 127.0.0.1 ${masterPort} 2`,
      `sentinel down-after-milliseconds ${MASTER} ${downAfterMs}`,
      `sentinel failover-timeout ${MASTER} 4000`,
      ...(password === undefined ? [] : [`requirepass ${password}`]),
      ...settings,
    ];
    writeFileSync(file, lines.join("\n"));
    return [file, "--sentinel"];
  }, password);
}

/**
 * Returns arguments of redis-server. With these arguments, a node opens connections from `address`. The node announces
 * `port`, the port of its link, to the master and the Sentinels.
 */
function addressArgs(address: string, port: number): string[] {
  return [
    ...["--bind-source-addr", address],
    ...["--replica-announce-ip", "127.0.0.1", "--replica-announce-port", String(port)],
  ];
}

/**
 * Returns lines of a Sentinel's configuration. With these lines, the Sentinel opens connections from `address`, and
 * announces 127.0.0.1 so that the other Sentinels connect to it directly.
 */
function placeOf(address: string | undefined): string[] {
  if (address === undefined) return [];
  return [`bind-source-addr ${address}`, "sentinel announce-ip 127.0.0.1", "protected-mode no"];
}
