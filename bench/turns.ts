import { ask, requireAlike } from "./ask.ts";
import type { Answer, Call, CallKey } from "./calls.ts";
import { busyShare, coreTimes, LOAD_CORE, SERVER_CORE } from "./cores.ts";
import { type Latency, loadPaced, loadPeak } from "./load.ts";
import type { BenchServer } from "./servers.ts";

/** What one server did in one turn: one call, over and over, as fast as it is answered. */
export interface Turn {
  /** Key of the row. */
  readonly row: string;
  readonly call: CallKey;
  /** Servers of one bout were started together. */
  readonly bout: number;
  /** Turns of one number were taken one right after the other. */
  readonly number: number;
  readonly callsPerSecond: number;
  /** Processor time of the server per call, user and system, in microseconds. */
  readonly cpuMicros: number;
  /** Share of its core that the server used. */
  readonly serverBusy: number;
  /** Share of the other core that was used: near 1 the load generator is what limits. */
  readonly loadBusy: number;
  /** Share of the server's core that other processes took: a figure for how quiet the machine was. */
  readonly othersBusy: number;
}

/** What a server did beside its turns, once a round. */
export interface Aside {
  readonly row: string;
  readonly call: CallKey;
  /** The most memory that was resident during the turns. */
  readonly peakMiB: number;
  /** At half of the calls per second of the warm-up; undefined where it is not measured. */
  readonly latency: Latency | undefined;
}

/** How long each part takes, in seconds. */
export interface Durations {
  readonly warmUp: number;
  readonly turn: number;
  readonly paced: number;
}

/** What turns need besides the servers. */
export interface TurnOptions {
  readonly call: Call;
  /** What the service answered, to which every server is held. */
  readonly reference: Answer;
  readonly durations: Durations;
  /** How many turns each server takes. */
  readonly turns: number;
  readonly bout: number;
  /** For files. */
  readonly folder: string;
}

/** So many calls tell roughly how fast a server is. */
const FIRST_CALLS = 640;

/** Has servers warm up and take turns at one call. @throws when an answer is wrong */
export async function takeTurns(
  servers: readonly BenchServer[],
  options: TurnOptions,
): Promise<{ turns: Turn[]; asides: Aside[] }> {
  const { call, durations, folder, bout } = options;
  const subjects: Subject[] = [];
  for (const server of servers) {
    const target = { url: server.url(call.http), call, folder };
    const bytes = await checkAnswer(server, options);
    const first = await loadPeak(target, FIRST_CALLS);
    const { callsPerSecond } = await loadPeak(target, first.callsPerSecond * durations.warmUp);
    server.forgetPeak();
    subjects.push({ server, target, bytes, callsPerSecond });
  }
  const turns: Turn[] = [];
  for (let i = 0; i < options.turns; i++) {
    // To and fro, so that none always follows the same other.
    const order = i % 2 === 0 ? subjects : subjects.toReversed();
    const number = bout * options.turns + i;
    for (const subject of order) turns.push({ bout, number, ...(await takeTurn(subject, durations.turn)) });
  }
  const asides: Aside[] = [];
  for (const { server, target, callsPerSecond } of subjects) {
    await checkAnswer(server, options);
    const peakMiB = server.peakMiB();
    const isPaced = server.row.isPaced && durations.paced > 0;
    const latency = isPaced ? await loadPaced(target, durations.paced, callsPerSecond / 2) : undefined;
    asides.push({ row: server.row.key, call: call.key, peakMiB, latency });
  }
  return { turns, asides };
}

interface Subject {
  readonly server: BenchServer;
  readonly target: Parameters<typeof loadPeak>[0];
  /** Length of an answer's body. */
  readonly bytes: number;
  /** When warmed up. */
  readonly callsPerSecond: number;
}

async function takeTurn(subject: Subject, seconds: number): Promise<Omit<Turn, "bout" | "number">> {
  const { server, target } = subject;
  const started = performance.now();
  const cpuBefore = server.cpuSeconds();
  const before = coreTimes();
  const { calls, callsPerSecond, bytesPerCall } = await loadPeak(target, subject.callsPerSecond * seconds);
  const cpuSeconds = server.cpuSeconds() - cpuBefore;
  const after = coreTimes();
  const elapsed = (performance.now() - started) / 1000;
  if (Math.abs(bytesPerCall / subject.bytes - 1) > 0.1) {
    const { key } = server.row;
    throw new Error(`${key}, ${target.call.title}: ${bytesPerCall} bytes a call under load, alone ${subject.bytes}`);
  }
  const serverBusy = cpuSeconds / elapsed;
  return {
    row: server.row.key,
    call: target.call.key,
    callsPerSecond,
    cpuMicros: (cpuSeconds * 1e6) / calls,
    serverBusy,
    loadBusy: busyShare(LOAD_CORE, before, after),
    othersBusy: Math.max(0, busyShare(SERVER_CORE, before, after) - serverBusy),
  };
}

/** Has a server answer once. @returns the length of the answer's body */
async function checkAnswer(server: BenchServer, { call, reference }: TurnOptions): Promise<number> {
  const { answer, bytes } = await ask(server.url(call.http), call, call.key === "create" ? newGroup(call) : call.body);
  try {
    requireAlike(call, answer, reference);
  } catch (cause) {
    throw new Error(`${server.row.key} answers otherwise than the service`, { cause });
  }
  return bytes;
}

let created = 0;

/** The body that creates a group, with an id that was not there before. */
export function newGroup(call: Call): Uint8Array {
  return Buffer.from(String(call.body).replace('"ID"', `"checked-${process.pid}-${created++}"`));
}
