import { table, whole } from "../report.ts";
import type { BenchServer } from "../servers.ts";
import { API_TOKEN } from "../stage.ts";
import { closedLoop, type Load, type Outcomes, openLoop, PEAK, type Reads, run } from "./load.ts";
import { handlingP99, lostOf, type Observed, type OtherCaller, p99Of } from "./other.ts";

export const PROMPT_MS = 50;
const RECOVERY_TIMEOUT_MS = 30_000;

/** A worker that receives a load. The benchmark observes the latency of another caller during the load. */
export interface Worker {
  readonly server: BenchServer;
  readonly other: OtherCaller;
  /** Duration of a load, in seconds. */
  readonly seconds: number;
}

export interface Floods {
  /** Rates of the loads that start calls at a fixed rate. Each rate is a multiple of the peak rate. */
  readonly rates: readonly number[];
  /** Numbers of calls in flight. For each number, one load keeps this number of calls in flight. */
  readonly inFlight: readonly number[];
}

interface Measured extends Outcomes {
  readonly load: Load;
  readonly other: Observed;
  /** p99 of the observed caller's calls, measured by the worker, in milliseconds. Excludes the wait in the queue. */
  readonly otherHandling: number;
  readonly cpuSeconds: number;
  readonly busy: number;
  readonly peakMiB: number;
  /** Time from the end of the load until a call is answered within `PROMPT_MS`, in milliseconds. */
  readonly recoveredMs: number;
}

/**
 * Measures a worker at the peak load, then under larger loads, then at the peak load again. The speed of a shared
 * machine can change in the meantime, so the peak rate is the average of both measurements.
 *
 * @param flood the reads of the larger loads. Default: the reads of the peak load
 */
export async function offered(
  title: string,
  worker: Worker,
  { peak: reads, flood = reads }: { readonly peak: Reads; readonly flood?: Reads },
  { rates, inFlight }: Floods,
): Promise<{ readonly text: string; readonly peak: number }> {
  const { other, seconds } = worker;
  // The first calls are slow because the runtime has not compiled the code.
  await run(reads, PEAK, seconds);
  await other.observed();
  const before = await other.completed();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const quiet = await other.observed();
  const quietHandling = handlingP99(before, await other.completed());
  const first = await measure(worker, reads, PEAK);
  const { http } = flood;
  const loads = [
    ...rates.map((rate) => openLoop(http, `${rate} × the peak`, rate * first.answeredPerSecond)),
    ...new Map(inFlight.map((calls) => closedLoop(http, calls)).map((load) => [load.title, load])).values(),
  ];
  const rows = [first];
  for (const load of loads) {
    rows.push(await measure(worker, flood, load));
    console.error(`${title}: ${load.title}`);
  }
  const last = await measure(worker, reads, { ...PEAK, title: "peak, measured again" });
  rows.push(last);
  const peak = (first.answeredPerSecond + last.answeredPerSecond) / 2;
  // The CPU time includes the warm-up of one second, so the number of calls must include the warm-up as well.
  const micros = ((first.cpuSeconds + last.cpuSeconds) * 1e6) / (2 * peak * (seconds + 1));
  const text = [
    `## ${title}`,
    `Peak: ${whole(peak)} calls per second, at ${micros.toFixed(0)} µs of CPU each. Quiet p99 of the other caller: ` +
      `${ms(p99Of(quiet.http1))} ms over HTTP/1.1, ${ms(p99Of(quiet.http2))} ms over HTTP/2, ${ms(quietHandling)} ms ` +
      "in the worker.",
    table(
      COLUMNS,
      rows.map((row) => cellsOf(row, peak, seconds)),
    ),
  ].join("\n\n");
  return { text, peak };
}

const COLUMNS = [
  ...["load", ">offered per second", ">answered", ">share of the peak", ">refused", ">failed in total"],
  ...[">p99 of answers, ms", ">other caller: p99 over HTTP/1.1, ms", ">p99 over HTTP/2, ms", ">p99 over both, ms"],
  ">p99 in the worker, ms",
  ...[">refused or failed", ">busy", ">memory, MiB", ">recovered after, ms"],
];

function cellsOf(row: Measured, peak: number, seconds: number): string[] {
  const { load, answeredPerSecond, refusedPerSecond, failed, other } = row;
  const { http1, http2 } = other;
  return [
    load.title,
    whole(load.perSecond ?? answeredPerSecond + refusedPerSecond + failed / seconds),
    ...[whole(answeredPerSecond), `${whole((100 * answeredPerSecond) / peak)} %`],
    ...[whole(refusedPerSecond), whole(failed)],
    ...[row.p99, p99Of(http1), p99Of(http2), p99Of(http1, http2), row.otherHandling].map(ms),
    ...[whole(lostOf(other)), `${whole(100 * row.busy)} %`, whole(row.peakMiB), whole(row.recoveredMs)],
  ];
}

async function measure({ server, other, seconds }: Worker, reads: Reads, load: Load): Promise<Measured> {
  server.forgetPeak();
  await other.observed();
  const before = await other.completed();
  const [began, cpu] = [performance.now(), server.cpuSeconds()];
  const outcomes = await run(reads, load, seconds);
  const cpuSeconds = server.cpuSeconds() - cpu;
  const busy = cpuSeconds / ((performance.now() - began) / 1000);
  const otherHandling = handlingP99(before, await other.completed());
  const recoveredMs = await untilPrompt(server);
  const peakMiB = server.peakMiB();
  return { ...outcomes, load, cpuSeconds, busy, peakMiB, recoveredMs, otherHandling, other: await other.observed() };
}

/**
 * Repeats a call until it is answered within `PROMPT_MS`.
 *
 * @returns the wait in milliseconds
 * @throws if no call is answered within `PROMPT_MS` during the first 30 s
 */
async function untilPrompt(server: BenchServer): Promise<number> {
  const began = performance.now();
  let reason: unknown;
  while (performance.now() - began < RECOVERY_TIMEOUT_MS) {
    try {
      const took = await timeOf(server, "group-0");
      if (took < PROMPT_MS) return performance.now() - began - took;
      reason = new Error(`the last answer took ${took.toFixed(0)} ms`);
    } catch (error) {
      reason = error;
    }
  }
  throw new Error(`the service did not answer quickly again within ${RECOVERY_TIMEOUT_MS} ms after the load`, {
    cause: reason,
  });
}

/**
 * Returns the duration of a call that returns a group, in milliseconds. The first call with an id creates the group.
 *
 * @throws if the call returns no group
 */
export async function timeOf(server: BenchServer, group: string, token = API_TOKEN): Promise<number> {
  const began = performance.now();
  const response = await fetch(`${server.url(1)}/api/user?user_group_id=${group}`, {
    headers: { authorization: `Token ${token}` },
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`a call was answered with ${response.status}: ${text}`);
  return performance.now() - began;
}

/** Formats a time in milliseconds. Returns a dash for NaN. */
export function ms(time: number): string {
  return Number.isNaN(time) ? "–" : time.toFixed(time < 10 ? 1 : 0);
}
