import { readFileSync } from "node:fs";
import { ask, requireAlike } from "./ask.ts";
import type { Answer, Call, CallKey } from "./calls.ts";
import { type Latency, type LoadTarget, loadPaced, loadPeak } from "./load.ts";
import { type BenchServer, LOAD_CORE, SERVER_CORE, type ServerSpec } from "./servers.ts";

/** How long each part of a measurement takes, in seconds. */
export interface Durations {
  readonly warmUp: number;
  readonly peak: number;
  readonly paced: number;
}

/** What was measured of one call on one server in one round. */
export interface Measurement {
  readonly round: number;
  readonly server: ServerSpec["key"];
  readonly call: CallKey;
  /** At the peak. */
  readonly callsPerSecond: number;
  /** Processor time of the server per call at the peak, in microseconds. */
  readonly cpuMicros: number;
  /** Share of its core that the server used at the peak. */
  readonly serverBusy: number;
  /** Share of the other core that was used at the peak: near 1 the load generator is what limits. */
  readonly loadBusy: number;
  /** Share of the server's core that other processes took at the peak: a figure for how quiet the machine was. */
  readonly othersBusy: number;
  readonly peakMiB: number;
  /** At half of the peak rate. */
  readonly paced: Latency & { readonly callsPerSecond: number };
  /** At half of the peak rate of the best peer. */
  readonly atPeersRate?: Latency & { readonly callsPerSecond: number };
}

/** A server, and which one it is. */
export interface RunningServer {
  readonly spec: ServerSpec;
  readonly server: BenchServer;
}

/** What a measurement needs besides the servers. */
export interface MeasureOptions {
  readonly round: number;
  readonly call: Call;
  /** What the service answered, to which every server is held. */
  readonly reference: Answer;
  readonly durations: Durations;
  readonly folder: string;
  /** The server at half of whose peak rate the service is measured too. */
  readonly peer: ServerSpec["key"] | undefined;
}

/** The servers take turns at their peak: a machine that is shared is fast for one minute and slow for the next. */
const TURNS = 4;

/** What the turns of one server add up to. */
interface Peak {
  calls: number;
  /** Of the load. */
  seconds: number;
  bytes: number;
  cpuSeconds: number;
  /** With the load generator's start. */
  elapsed: number;
  othersBusy: number;
  loadBusy: number;
}

/** Warms servers up, finds the peak of each and measures each at half of its own. @throws when an answer is wrong */
export async function measure(servers: readonly RunningServer[], options: MeasureOptions): Promise<Measurement[]> {
  const { round, call, durations, folder } = options;
  const subjects = servers.map(({ spec, server }) => ({
    spec,
    server,
    target: { url: server.url, call, folder } satisfies LoadTarget,
    peak: { calls: 0, seconds: 0, bytes: 0, cpuSeconds: 0, elapsed: 0, othersBusy: 0, loadBusy: 0 } satisfies Peak,
  }));
  for (const { server, target } of subjects) {
    await checkAnswer(server, options);
    await loadPeak(target, durations.warmUp);
    server.forgetPeak();
  }
  for (let turn = 0; turn < TURNS; turn++) {
    for (const { server, target, peak } of subjects) await addTurn(server, target, durations.peak / TURNS, peak);
  }
  const measurements: Measurement[] = [];
  for (const { spec, server, target, peak } of subjects) {
    const bytes = await checkAnswer(server, options);
    const bytesPerCall = peak.bytes / peak.calls;
    if (Math.abs(bytesPerCall / bytes - 1) > 0.1) {
      throw new Error(`${spec.title}, ${call.title}: ${bytesPerCall} bytes a call under load, alone ${bytes}`);
    }
    const pacedAt = async (callsPerSecond: number) => ({
      callsPerSecond,
      ...(await loadPaced(target, durations.paced, callsPerSecond)),
    });
    const callsPerSecond = peak.calls / peak.seconds;
    const peakMiB = server.peakMiB();
    const paced = await pacedAt(callsPerSecond / 2);
    const peersRate = measurements.find(({ server: key }) => key === options.peer)?.paced.callsPerSecond;
    measurements.push({
      round,
      server: spec.key,
      call: call.key,
      callsPerSecond,
      cpuMicros: (peak.cpuSeconds * 1e6) / peak.calls,
      serverBusy: peak.cpuSeconds / peak.elapsed,
      loadBusy: peak.loadBusy / TURNS,
      othersBusy: peak.othersBusy / TURNS,
      peakMiB,
      paced,
      ...(spec.key === "service" && peersRate !== undefined && { atPeersRate: await pacedAt(peersRate) }),
    });
  }
  return measurements;
}

async function addTurn(server: BenchServer, target: LoadTarget, seconds: number, peak: Peak): Promise<void> {
  const started = performance.now();
  const cpuBefore = server.cpuSeconds();
  const before = coreTimes();
  const { calls, callsPerSecond, bytesPerCall } = await loadPeak(target, seconds);
  const cpuSeconds = server.cpuSeconds() - cpuBefore;
  const elapsed = (performance.now() - started) / 1000;
  const busy = busyShares(before, coreTimes());
  peak.calls += calls;
  peak.seconds += calls / callsPerSecond;
  peak.bytes += bytesPerCall * calls;
  peak.cpuSeconds += cpuSeconds;
  peak.elapsed += elapsed;
  peak.loadBusy += busy[LOAD_CORE];
  peak.othersBusy += Math.max(0, busy[SERVER_CORE] - cpuSeconds / elapsed);
}

/** Has a server answer once. @returns the length of the answer's body */
async function checkAnswer(server: BenchServer, { call, reference, round }: MeasureOptions): Promise<number> {
  const { answer, bytes } = await ask(server.url, call, call.key === "create" ? newGroup(call, round) : call.body);
  requireAlike(call, answer, reference);
  return bytes;
}

let created = 0;

/** The body that creates a group, with an id that was not there before. */
export function newGroup(call: Call, round: number): Uint8Array {
  return Buffer.from(String(call.body).replace('"ID"', `"checked-${process.pid}-${round}-${created++}"`));
}

type CoreTimes = { readonly [core in typeof SERVER_CORE | typeof LOAD_CORE]: { idle: number; total: number } };

/** What the kernel has counted of both cores. */
function coreTimes(): CoreTimes {
  const stat = readFileSync("/proc/stat", "utf8").split("\n");
  const timesOf = (core: string) => {
    const line = stat.find((text) => text.startsWith(`cpu${core} `)) ?? "";
    const times = line.split(/\s+/).slice(1, 9).map(Number);
    return { idle: (times[3] ?? 0) + (times[4] ?? 0), total: times.reduce((sum, time) => sum + time, 0) };
  };
  return { [SERVER_CORE]: timesOf(SERVER_CORE), [LOAD_CORE]: timesOf(LOAD_CORE) };
}

function busyShares(from: CoreTimes, to: CoreTimes) {
  const share = (core: keyof CoreTimes) => 1 - (to[core].idle - from[core].idle) / (to[core].total - from[core].total);
  return { [SERVER_CORE]: share(SERVER_CORE), [LOAD_CORE]: share(LOAD_CORE) };
}
