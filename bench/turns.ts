import { ask } from "./ask.ts";
import type { Answer, Call } from "./calls.ts";
import { busyShare, coreTimes, LOAD_CORE, SERVER_CORE } from "./cores.ts";
import { type Latency, loadPaced, loadPeak } from "./load.ts";
import type { BenchServer } from "./servers.ts";
import type { OneNode, Stage } from "./stage.ts";

/** A server, and what it is asked over and over. */
export interface Subject {
  readonly server: BenchServer;
  readonly call: Call<string>;
  /** The body that asks once. Default: the call's. */
  readonly bodyOnce?: () => Uint8Array | undefined;
  /** @throws when an answer is wrong */
  check(answer: Answer): void;
}

/** What one server did in one turn: one call, over and over, as fast as it is answered. */
export interface Turn {
  /** Key of the row. */
  readonly row: string;
  /** Key of the call. */
  readonly call: string;
  /** The round, which starts every server again. */
  readonly round: number;
  /** Turns of one number were taken one right after the other. */
  readonly number: number;
  readonly callsPerSecond: number;
  /** Processor time of the server per call, user and system, in microseconds. */
  readonly cpuMicros: number;
  /** That of Redis. */
  readonly storeMicros: number;
  /** Undefined where the call does not say on how many connections it is made. */
  readonly latency: Latency | undefined;
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
  readonly call: string;
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

/** What turns need besides their subjects. */
export interface TurnOptions {
  readonly durations: Durations;
  /** How many turns each subject takes. */
  readonly turns: number;
  readonly round: number;
}

/** So many calls tell roughly how fast a server is. */
const FIRST_CALLS = 640;

/** Has subjects warm up and take turns. @throws when an answer is wrong */
export async function takeTurns(
  subjects: readonly Subject[],
  stage: Stage<OneNode>,
  { durations, turns: count, round }: TurnOptions,
): Promise<{ turns: Turn[]; asides: Aside[] }> {
  const warm: Warm[] = [];
  for (const subject of subjects) {
    const { server, call } = subject;
    const target = { url: server.url(call.http), call, folder: stage.folder };
    const bytes = await checkAnswer(subject);
    const first = await loadPeak(target, FIRST_CALLS);
    const { callsPerSecond } = await loadPeak(target, first.callsPerSecond * durations.warmUp);
    server.forgetPeak();
    warm.push({ ...subject, target, bytes, callsPerSecond });
  }
  const turns: Turn[] = [];
  for (let i = 0; i < count; i++) {
    // To and fro, so that none always follows the same other.
    for (const each of i % 2 === 0 ? warm : warm.toReversed()) {
      turns.push({ round, number: round * count + i, ...(await takeTurn(each, stage.store, durations.turn)) });
    }
  }
  const asides: Aside[] = [];
  for (const subject of warm) {
    const { server, call, target, callsPerSecond } = subject;
    await checkAnswer(subject);
    const peakMiB = server.peakMiB();
    const isPaced = server.row.isPaced && durations.paced > 0;
    const latency = isPaced ? await loadPaced(target, durations.paced, callsPerSecond / 2) : undefined;
    asides.push({ row: server.row.key, call: call.key, peakMiB, latency });
  }
  return { turns, asides };
}

/** A subject that has warmed up. */
interface Warm extends Subject {
  readonly target: Parameters<typeof loadPeak>[0];
  /** Length of an answer's body. */
  readonly bytes: number;
  readonly callsPerSecond: number;
}

async function takeTurn(
  { server, call, target, bytes, callsPerSecond: rate }: Warm,
  store: OneNode,
  seconds: number,
): Promise<Omit<Turn, "round" | "number">> {
  const started = performance.now();
  const cpuBefore = [server.cpuSeconds(), store.cpuSeconds()] as const;
  const before = coreTimes();
  const { calls, callsPerSecond, bytesPerCall, latency } = await loadPeak(target, rate * seconds);
  const cpuSeconds = server.cpuSeconds() - cpuBefore[0];
  const storeSeconds = store.cpuSeconds() - cpuBefore[1];
  const after = coreTimes();
  const elapsed = (performance.now() - started) / 1000;
  if (Math.abs(bytesPerCall / bytes - 1) > 0.1) {
    throw new Error(`${server.row.key}, ${call.title}: ${bytesPerCall} bytes a call under load, alone ${bytes}`);
  }
  const serverBusy = cpuSeconds / elapsed;
  return {
    row: server.row.key,
    call: call.key,
    callsPerSecond,
    cpuMicros: (cpuSeconds * 1e6) / calls,
    storeMicros: (storeSeconds * 1e6) / calls,
    latency,
    serverBusy,
    loadBusy: busyShare(LOAD_CORE, before, after),
    othersBusy: Math.max(0, busyShare(SERVER_CORE, before, after) - serverBusy),
  };
}

/** Has a server answer once. @returns the length of the answer's body */
async function checkAnswer({ server, call, bodyOnce, check }: Subject): Promise<number> {
  const { answer, bytes } = await ask(server.url(call.http), call, bodyOnce?.() ?? call.body);
  try {
    check(answer);
  } catch (cause) {
    throw new Error(`${server.row.key} answers ${call.title} otherwise than it should`, { cause });
  }
  return bytes;
}
