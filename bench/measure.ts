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

/** What a measurement needs besides the server. */
export interface MeasureOptions {
  readonly round: number;
  readonly spec: ServerSpec;
  readonly call: Call;
  /** What the service answered, to which every server is held. */
  readonly reference: Answer;
  readonly durations: Durations;
  readonly folder: string;
  /** A further rate to measure the latency at. */
  readonly peersRate: number | undefined;
}

/** Warms a server up, finds its peak and measures at half of it. @throws when an answer is wrong */
export async function measure(server: BenchServer, options: MeasureOptions): Promise<Measurement> {
  const { round, spec, call, durations, folder, peersRate } = options;
  const target: LoadTarget = { url: server.url, call, folder };
  await checkAnswer(server, options);
  await loadPeak(target, durations.warmUp);

  server.forgetPeak();
  const started = performance.now();
  const cpuBefore = server.cpuSeconds();
  const before = coreTimes();
  const peak = await loadPeak(target, durations.peak);
  const cpuSeconds = server.cpuSeconds() - cpuBefore;
  const seconds = (performance.now() - started) / 1000;
  const serverBusy = cpuSeconds / seconds;
  const busy = busyShares(before, coreTimes());
  const peakMiB = server.peakMiB();

  const bytes = await checkAnswer(server, options);
  if (Math.abs(peak.bytesPerCall / bytes - 1) > 0.1) {
    throw new Error(`${spec.title}, ${call.title}: ${peak.bytesPerCall} bytes a call under load, alone ${bytes}`);
  }
  const pacedAt = async (callsPerSecond: number) => ({
    callsPerSecond,
    ...(await loadPaced(target, durations.paced, callsPerSecond)),
  });
  return {
    round,
    server: spec.key,
    call: call.key,
    callsPerSecond: peak.callsPerSecond,
    cpuMicros: (cpuSeconds * 1e6) / peak.calls,
    serverBusy,
    loadBusy: busy[LOAD_CORE],
    othersBusy: Math.max(0, busy[SERVER_CORE] - serverBusy),
    peakMiB,
    paced: await pacedAt(peak.callsPerSecond / 2),
    ...(peersRate !== undefined && { atPeersRate: await pacedAt(peersRate) }),
  };
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
