import { newApiToken } from "../../src/domain/token.ts";
import { startRedis } from "../../test/support/redis.ts";
import { startCluster } from "../../test/support/redis-cluster.ts";
import { startSentinels } from "../../test/support/redis-sentinel.ts";
import { describeMachine, prepareMachine } from "../machine.ts";
import { report } from "../report.ts";
import { serviceRow } from "../rows.ts";
import { findRuntimes, type RuntimeInfo } from "../runtimes.ts";
import { API_TOKEN, onStage, type Stage } from "../stage.ts";
import { GRPC, PROTOCOLS, type Protocol, REST_HTTP2, type Reads, readsOf } from "./load.ts";
import { type Floods, offered, PROMPT_MS, timeOf, type Worker } from "./offered.ts";
import { OTHER_TOKEN, type OtherProtocol, startOther } from "./other.ts";
import { slowShard, TENANT_TOKENS } from "./slow-shard.ts";

const GROUPS = Array.from({ length: 300 }, (_, i) => `group-${i}`);
const FLOODS: Floods = { rates: [1, 2, 4], inFlight: [5000, 20_000] };
/**
 * The options of V8 that `npm start` and `npm run start:deno` set. Node reads the first variable, and Deno reads the
 * second variable.
 */
const V8_OPTIONS = { NODE_OPTIONS: "--max-semi-space-size=32", DENO_V8_FLAGS: "--heap-growing-percent=50" };
const QUICK_FLOODS: Floods = { rates: [2], inFlight: [20_000] };
/** Rate of the load on each of the two environments, as a share of the peak rate. */
const SHARD_SHARE = 0.25;
/**
 * Timeout after which the Cluster replaces a node. It is so long that no slow node is replaced during the benchmark.
 */
const NODE_TIMEOUT_MS = 120_000;
/** Client addresses that the proxy header reports for the two callers. */
const [FLOOD_ADDRESS, OTHER_ADDRESS] = ["192.0.2.1", "192.0.2.2"];

/** @param args `--quick` runs fewer and shorter loads, to check that the benchmark works */
export async function main(args: readonly string[]): Promise<void> {
  prepareMachine();
  const isQuick = args.includes("--quick");
  const [seconds, floods] = isQuick ? [2, QUICK_FLOODS] : [7, FLOODS];
  const runtimes = findRuntimes(["node", "deno"]);
  const node = runtimes[0] as RuntimeInfo;
  const parts = [
    `${describeMachine(runtimes)}. One worker has its own core. Redis and the loads share the other core. Each load ` +
      `takes ${seconds} s. The speed of the machine can change, so the peak rate is measured before and after the other ` +
      "loads. **Share of the peak**: answered calls, as a share of the average of both peak rates. **Other caller**: a " +
      "client with its own API token. The client makes 50 calls per second over each HTTP version, also before and " +
      "after the load. **In the worker**: the duration of these calls in the worker, without the wait in the queue. " +
      "**Busy**: share of the worker's core that is in use. If the share is below 90 %, the load generator is the " +
      "bottleneck. **Memory**: peak resident memory. **Recovered after**: time from the end of the load until a call is " +
      `answered within ${PROMPT_MS} ms. h2load opens only as many streams as the worker allows, and the p99 excludes ` +
      "the wait for a stream. A gRPC refusal or error has HTTP status 200, like an answer. So the table derives the number of " +
      "refusals from the total size of all answers, and the p99 includes refusals.",
  ];
  const add = (text: string) => parts.push(text);

  await onStage(runtimes, await startRedis(), async (stage) => {
    for (const runtime of runtimes) {
      const protocols = isQuick && runtime.runtime === "deno" ? [GRPC] : PROTOCOLS;
      for (const protocol of protocols) {
        await withWorker(stage, runtime, { seconds, other: otherThan(protocol) }, async (worker) => {
          const title = `${protocol.title}, ${runtime.title}`;
          add((await offered(title, worker, { peak: await readsFor(worker, protocol, stage) }, floods)).text);
        });
      }
    }
    add(await beforeAuthentication(stage, node, seconds));
  });

  await onStage(runtimes, await startSentinels(), async (stage) => {
    await withWorker(stage, node, { seconds }, async (worker) => {
      const title = `Sentinel: ${REST_HTTP2.title}, Node`;
      add((await offered(title, worker, { peak: await readsFor(worker, REST_HTTP2, stage) }, floods)).text);
    });
  });

  const cluster = await startCluster({ nodeTimeoutMs: NODE_TIMEOUT_MS });
  await onStage(runtimes, cluster, async (stage) => {
    await withWorker(stage, node, { seconds, tokens: TENANT_TOKENS }, async (worker) => {
      const title = `Cluster: ${REST_HTTP2.title}, Node`;
      const reads = await readsFor(worker, REST_HTTP2, stage);
      const { text, peak } = await offered(title, worker, { peak: reads }, floods);
      add(text);
      const { folder } = stage;
      add(await slowShard(cluster, worker.server, { folder, seconds, perSecond: SHARD_SHARE * peak }));
    });
  });
  report(parts.join("\n\n"), isQuick ? undefined : "overload");
}

/** Floods a worker with calls that present an unknown API token. The observed caller has another client address. */
function beforeAuthentication(stage: Stage, runtime: RuntimeInfo, seconds: number): Promise<string> {
  const settings = { TRUSTED_PROXIES: "127.0.0.1" };
  return withWorker(stage, runtime, { seconds, address: OTHER_ADDRESS, settings }, async (worker) => {
    const peak = await readsFor(worker, REST_HTTP2, stage);
    const headers = { authorization: `Token ${newApiToken()}`, "x-forwarded-for": FLOOD_ADDRESS };
    const title = `An unknown API token from another address: ${REST_HTTP2.title}, Node`;
    const floods = { rates: [4], inFlight: [20_000] };
    return (await offered(title, worker, { peak, flood: { ...peak, headers } }, floods)).text;
  });
}

/**
 * Starts a worker, creates the groups, and starts the observed caller. Runs `work`, and then stops worker and caller.
 */
async function withWorker<T>(
  stage: Stage,
  { runtime }: RuntimeInfo,
  options: {
    readonly seconds: number;
    /** Protocol of the observed caller. Must differ from the protocol of the load. Default: Connect */
    readonly other?: OtherProtocol;
    /**
     * Client address of the observed caller, in the header that a proxy would send. If undefined, the observed caller
     * sends no such header.
     */
    readonly address?: string;
    readonly tokens?: readonly string[];
    readonly settings?: { readonly [name: string]: string };
  },
  work: (worker: Worker) => Promise<T>,
): Promise<T> {
  const { seconds, other: protocol = "connect", address, tokens = [], settings } = options;
  const all = [`bench/Customer=${API_TOKEN}`, `other/Customer=${OTHER_TOKEN}`, ...tokens].join(",");
  const server = await stage.start(serviceRow(runtime), { API_TOKENS: all, ...V8_OPTIONS, ...settings });
  for (const group of GROUPS) await timeOf(server, group);
  const other = await startOther(server, { protocol, address });
  try {
    return await work({ server, other, seconds });
  } finally {
    await other.stop();
    await server.stop();
  }
}

function otherThan({ key }: Protocol): OtherProtocol {
  return key === "connectGet" ? "rest" : "connect";
}

function readsFor({ server }: Worker, protocol: Protocol, { folder }: Stage): Promise<Reads> {
  return readsOf(protocol, server.url(protocol.http), { groups: GROUPS, folder, name: "all" });
}
