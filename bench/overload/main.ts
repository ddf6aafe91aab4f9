import { ask, startRedis, type TestRedis } from "../../test/support/redis.ts";
import { startCluster, type TestCluster } from "../../test/support/redis-cluster.ts";
import { startSentinels } from "../../test/support/redis-sentinel.ts";
import { describeMachine, prepareMachine } from "../machine.ts";
import { report, table, whole } from "../report.ts";
import { serviceRow } from "../rows.ts";
import { findRuntimes, type RuntimeInfo } from "../runtimes.ts";
import type { BenchServer } from "../servers.ts";
import { API_TOKEN, onStage, type Store } from "../stage.ts";
import { type Answered, loadAtOnce, loadAtRate, type Target } from "./load.ts";

const GROUPS = 300;

/** Rates as multiples of the peak. */
const RATES = [0.5, 1, 2, 4];
/**
 * Rate to the groups of one shard, and to those of the others, as a share of the peak. The worker has room for both.
 */
const SHARD_SHARE = 0.25;
/** Calls in flight: more than a worker accepts. */
const FLOODS = [5000, 20_000];
/** An answer within this many milliseconds counts as prompt. */
const PROMPT_MS = 50;
/** Long enough that no slow shard is replaced. */
const NODE_TIMEOUT_MS = 120_000;

/** A load, its rate in calls per second, and what was observed. */
interface Measured extends Answered {
  readonly title: string;
  readonly offered: number;
  readonly peakMiB: number;
  /** Time from the end of the load to a prompt answer, in milliseconds. */
  readonly recoveredMs: number;
}

/** @param args `--quick`: 3 seconds per load, to check that the benchmark works */
export async function main(args: readonly string[]): Promise<void> {
  prepareMachine();
  const isQuick = args.includes("--quick");
  const seconds = isQuick ? 3 : 10;
  const runtimes = findRuntimes(["node"]);
  const parts = [
    `${describeMachine(runtimes)}; one worker has its own core; Redis and the load share the other. ` +
      "**memory**: peak resident memory. **recovered after**: time from the end of the load until a call is answered " +
      `within ${PROMPT_MS} ms.`,
  ];
  const shapes: readonly [string, () => Promise<Store>][] = [
    ["One node", () => startRedis()],
    ["Sentinel", () => startSentinels()],
  ];
  for (const [title, start] of shapes) {
    const measure = async (target: Target, server: BenchServer) => (await offered(title, target, server, seconds)).text;
    parts.push(await withGroups(await start(), runtimes, measure));
  }
  const cluster = await startCluster({ nodeTimeoutMs: NODE_TIMEOUT_MS });
  const onCluster = async (target: Target, server: BenchServer) => {
    const { text, peak } = await offered("Cluster", target, server, seconds);
    return `${text}\n\n${await slowShard(cluster, target, { seconds, rate: SHARD_SHARE * peak })}`;
  };
  parts.push(await withGroups(cluster, runtimes, onCluster));
  report(parts.join("\n\n"), isQuick ? undefined : "overload");
}

/** Starts a worker with a Redis and creates groups. */
async function withGroups(
  store: Store,
  runtimes: readonly RuntimeInfo[],
  measure: (target: Target, server: BenchServer) => Promise<string>,
): Promise<string> {
  return onStage(runtimes, store, async ({ folder, start }) => {
    const server = await start(serviceRow("node"));
    const groups = Array.from({ length: GROUPS }, (_, i) => `group-${i}`);
    const target = { url: server.url(2), groups, folder, name: "all" };
    for (const group of groups) await timeOf(target, group);
    return await measure(target, server);
  });
}

/** Increases the load on a worker step by step. */
async function offered(
  title: string,
  target: Target,
  server: BenchServer,
  seconds: number,
): Promise<{ readonly text: string; readonly peak: number }> {
  // The first calls run uncompiled code and are slow.
  await loadAtOnce(target, seconds, 64);
  const cpu = server.cpuSeconds();
  const peak = (await loadAtOnce(target, seconds, 64)).acceptedPerSecond;
  // The load's warm-up of a second counts in both.
  const micros = ((server.cpuSeconds() - cpu) * 1e6) / (peak * (seconds + 1));
  const rows: Measured[] = [];
  const measure = async (name: string, rate: number | undefined, load: () => Promise<Answered>) => {
    server.forgetPeak();
    const answered = await load();
    const recoveredMs = await untilPrompt(target);
    const offeredRate = rate ?? answered.acceptedPerSecond + answered.refusedPerSecond;
    rows.push({ ...answered, title: name, offered: offeredRate, peakMiB: server.peakMiB(), recoveredMs });
    console.error(`${title}: ${name}`);
  };
  for (const share of RATES) {
    await measure(`${share} × the peak`, share * peak, () => loadAtRate(target, seconds, share * peak));
  }
  for (const calls of FLOODS) {
    await measure(`${whole(calls)} in flight, closed loop`, undefined, () => loadAtOnce(target, seconds, calls));
  }
  const columns = [
    ...["offered per second", "answered", "refused", "failed", "p99 of answers, ms", "p99 of refusals, ms"],
    ...["memory, MiB", "recovered after, ms"],
  ];
  const lines = rows.map((row) => [
    row.title,
    ...[row.offered, row.acceptedPerSecond, row.refusedPerSecond].map(whole),
    String(row.failed),
    ...[row.p99, row.refusedP99].map(ms),
    ...[row.peakMiB, row.recoveredMs].map((figure) => figure.toFixed(0)),
  ]);
  const text = [
    `## ${title}`,
    `Peak with 64 calls in flight: ${whole(peak)} calls per second, at ${micros.toFixed(0)} µs of CPU each.`,
    table(["load", ...columns.map((column) => `>${column}`)], lines),
  ].join("\n\n");
  return { text, peak };
}

/** Measures calls to the groups of one slow shard and, at the same time, to those of the other shards. */
async function slowShard(
  cluster: TestCluster,
  target: Target,
  { seconds, rate }: { readonly seconds: number; readonly rate: number },
): Promise<string> {
  const [slow, ...others] = cluster.nodes.slice(0, 3) as [TestRedis, ...TestRedis[]];
  const there = { ...target, groups: await groupsAt(slow), name: "slow" };
  const elsewhere = { ...target, groups: (await Promise.all(others.map(groupsAt))).flat(), name: "others" };
  const states: readonly [string, () => () => Promise<unknown>][] = [
    ["healthy", () => async () => {}],
    ["delays responses by 400 ms, twice a second", () => pauseAgainAndAgain(slow)],
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
    const both = await Promise.all([there, elsewhere].map((each) => loadAtRate(each, seconds, rate)));
    await end();
    const cells = both.flatMap(({ acceptedPerSecond, p99, failed, refusedPerSecond }) => [
      whole(acceptedPerSecond),
      ms(p99),
      whole(failed + refusedPerSecond * seconds),
    ]);
    lines.push([title, ...cells]);
    console.error(`Cluster, state of a shard: ${title}`);
  }
  const figures = [">answered per second", ">p99, ms", ">failed or refused"];
  const columns = ["its groups", "other groups"].flatMap((whose) =>
    figures.map((text) => text.replace(">", `>${whose}: `)),
  );
  return [
    `Calls to the groups of one shard at ${whole(rate)} per second, and to the groups of the two other shards at the same rate:`,
    table(["state of the shard", ...columns], lines),
  ].join("\n\n");
}

/** Delays all answers of a node most of the time. Returns a function that ends the delay. */
function pauseAgainAndAgain(node: TestRedis): () => Promise<unknown> {
  const hold = () => ask(node, "CLIENT", "PAUSE", "400", "ALL").catch(() => {});
  void hold();
  const timer = setInterval(hold, 500);
  return async () => {
    clearInterval(timer);
    await ask(node, "CLIENT", "UNPAUSE");
  };
}

/** Ids of the groups on a node. */
async function groupsAt(node: TestRedis): Promise<string[]> {
  const keys = (await ask(node, "KEYS", "ug:{*}:group:*")) as string[];
  return keys.map((key) => key.slice(key.indexOf("}:group:") + "}:group:".length));
}

/** Waits for a prompt answer. Returns the wait in milliseconds. */
async function untilPrompt(target: Target): Promise<number> {
  const began = performance.now();
  for (;;) {
    const took = await timeOf(target, target.groups[0] as string).catch(() => Number.POSITIVE_INFINITY);
    if (took < PROMPT_MS) return performance.now() - began - took;
  }
}

/**
 * Duration of a call that returns a group, in milliseconds.
 *
 * @throws for any other answer
 */
async function timeOf({ url }: Target, group: string): Promise<number> {
  const began = performance.now();
  const response = await fetch(`${url}/api/user?user_group_id=${group}`, {
    headers: { authorization: `Token ${API_TOKEN}` },
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`a call was answered with ${response.status}: ${text}`);
  return performance.now() - began;
}

function ms(time: number): string {
  return Number.isNaN(time) ? "–" : time.toFixed(time < 10 ? 1 : 0);
}
