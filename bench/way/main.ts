import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Built, builtAt, HERE } from "../calls/commits.ts";
import { seed } from "../calls/seed.ts";
import type { Call, CallKey } from "../calls.ts";
import { loadPeak } from "../load.ts";
import { describeMachine, prepareMachine } from "../machine.ts";
import { report, table } from "../report.ts";
import { READS, serviceRow } from "../rows.ts";
import { findRuntimes, type RuntimeInfo } from "../runtimes.ts";
import { onStage, PATIENT, startStore } from "../stage.ts";
import { INSPECTABLE, inspect } from "./inspect.ts";
import { filesPassed, functionsPassed, type Passed, type ScriptCoverage } from "./passed.ts";

/** The release before the last one, and the last one. */
const RELEASES = "bfc8870,cd75a3f";

/** How many calls are made before any is looked at, how many are counted, and over how many allocations are sampled. */
const CALLS = { warmUp: 10_000, counted: 500, sampled: 10_000 };
const QUICK = { warmUp: 500, counted: 100, sampled: 500 };

/** Bytes between two samples, on average. */
const SAMPLING_INTERVAL = 16_384;

/** What a call is seen to do. */
interface Way {
  readonly title: string;
  readonly passed: readonly Passed[];
  /** Bytes that it allocates on V8's heap. */
  readonly bytes: number;
}

/** @param args `--at COMMIT,COMMIT`: beside other commits than the releases; `--quick`: few calls, to see that it works */
export async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { at: { type: "string", default: RELEASES }, quick: { type: "boolean", default: false } },
  });
  const builds = [...values.at.split(",").filter(Boolean).map(builtAt), HERE];
  prepareMachine();
  const runtimes = findRuntimes(["node"]);
  const ways: (readonly [Built, Way[]])[] = [];
  for (const build of builds) ways.push([build, await waysOf(build, runtimes, values.quick ? QUICK : CALLS)]);
  // What is here, and then what was before it.
  const lists = ways
    .slice(-2)
    .reverse()
    .flatMap(([build, each]) => each.map((way) => listOf(way, build)));
  const text = [`${describeMachine(runtimes)}. ${EXPLANATION}`, overview(ways), ...lists].join("\n\n");
  report(text, values.quick ? undefined : "way");
}

const EXPLANATION = `Which functions of ours one Get passes, file by file: what V8's precise coverage counted of
the built service over ${CALLS.counted} calls, one at a time, of a group that exists; functions that run in at least every
second call, \`×\` how often a call runs them. Functions without a name of their own stand as (anonymous), those that
initialise the fields of a class as fields. **KB**: what a call allocates on V8's heap, by a sampling heap profile of
${CALLS.sampled.toLocaleString("en")} calls, 64 under way.`;

/** Makes every kind of Get of a built service. */
async function waysOf(build: Built, runtimes: readonly RuntimeInfo[], counts: typeof CALLS): Promise<Way[]> {
  const row = serviceRow("node", { title: build.title, entry: join(build.dist, "main.js") });
  return onStage(runtimes, await startStore(), async (stage) => {
    const seeded = await seed(stage, row, READS);
    const server = await stage.start(row, { ...PATIENT, ...INSPECTABLE });
    const probe = inspect(server);
    const make = (call: Call, count: number) =>
      loadPeak({ url: server.url(call.http), call, folder: stage.folder }, count);
    const bytes = new Map<CallKey, number>();
    for (const { call } of seeded.values()) {
      await make(call, counts.warmUp);
      await probe("HeapProfiler.startSampling", { samplingInterval: SAMPLING_INTERVAL, ...WITH_GARBAGE });
      const { calls } = await make(call, counts.sampled);
      const { profile } = await probe<{ profile: { head: HeapNode } }>("HeapProfiler.stopSampling");
      bytes.set(call.key, sizeOf(profile.head) / calls);
    }
    await probe("Profiler.enable");
    await probe("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    const ways: Way[] = [];
    for (const { call } of seeded.values()) {
      const alone = { ...call, connections: 1 };
      await make(alone, counts.counted);
      // Counts begin anew whenever they are taken.
      await probe("Profiler.takePreciseCoverage");
      await make(alone, counts.counted);
      const { result } = await probe<{ result: ScriptCoverage[] }>("Profiler.takePreciseCoverage");
      const passed = functionsPassed(result, counts.counted, build.dist);
      ways.push({ title: call.title, passed, bytes: bytes.get(call.key) ?? Number.NaN });
      console.error(`${build.title}, ${call.title}: ${passed.length} functions`);
    }
    return ways;
  });
}

/** Samples of objects that were collected meanwhile count too. */
const WITH_GARBAGE = { includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true };

interface HeapNode {
  readonly selfSize: number;
  readonly children: readonly HeapNode[];
}

function sizeOf({ selfSize, children }: HeapNode): number {
  return children.reduce((sum, child) => sum + sizeOf(child), selfSize);
}

function sumOf(passed: readonly Passed[]): [functions: string, files: string, runs: string] {
  const runs = passed.reduce((sum, one) => sum + one.runs, 0);
  return [String(passed.length), String(filesPassed(passed).length), runs.toFixed(0)];
}

/** What is counted of each build, a row each. */
function overview(ways: readonly (readonly [Built, readonly Way[]])[]): string {
  const titles = (ways[0]?.[1] ?? []).map(({ title }) => title);
  const rows = ways.map(([build, each]) => {
    const cells = each.map(({ passed, bytes }) => {
      const [functions, files, runs] = sumOf(passed);
      return `${functions} in ${files} files, run ${runs} times; ${(bytes / 1000).toFixed(1)} KB`;
    });
    return [build.title, ...cells];
  });
  return table(["functions of ours that a call passes", ...titles], rows);
}

function listOf({ title, passed }: Way, build: Built): string {
  const [functions, files, runs] = sumOf(passed);
  const rows = filesPassed(passed).map(([file, names]) => [`\`${file}\``, names]);
  const of = build === HERE ? title : `At ${build.title}, ${title}`;
  return `## ${of}: ${functions} functions in ${files} files, run ${runs} times a call\n\n${table(["file", "functions"], rows)}`;
}
