import { ask, requireAlike } from "./ask.ts";
import { bodyOnce, type Seeded } from "./calls/seed.ts";
import { busyShare, serverCoreTimes } from "./cores.ts";
import { type Latency, loadPaced, loadPeak } from "./load.ts";
import type { BenchServer } from "./servers.ts";

export interface Subject extends Seeded {
  readonly server: BenchServer;
}

/** Results of one turn. In a turn, one server answers the same call again and again, as fast as possible. */
export interface Turn {
  readonly row: string;
  readonly call: string;
  readonly round: number;
  /**
   * Number of the turn, counted over all rounds. The turns with the same number, one per server, ran one after another.
   */
  readonly number: number;
  readonly callsPerSecond: number;
  /** CPU time of the server per call, user and system, in microseconds. */
  readonly cpuMicros: number;
  readonly serverBusy: number;
  /** Share of the server's core that other processes used. */
  readonly othersBusy: number;
}

/** Figures that the benchmark measures once per round for each server and call, after the turns. */
export interface Aside {
  readonly row: string;
  readonly call: string;
  readonly peakMiB: number;
  /** Latency at half of the rate that the server reached in the warm-up. Undefined if the row has no paced calls. */
  readonly latency: Latency | undefined;
}

export interface Durations {
  readonly warmUp: number;
  readonly turn: number;
  readonly paced: number;
}

export interface TurnOptions {
  readonly durations: Durations;
  /** Number of turns of each server in the round. */
  readonly turns: number;
  readonly round: number;
}

const FIRST_CALLS = 640;

/**
 * Warms up each server with its call. Then the servers take turns.
 *
 * @throws if an answer is wrong
 */
export async function takeTurns(
  subjects: readonly Subject[],
  folder: string,
  { durations, turns: count, round }: TurnOptions,
): Promise<{ turns: Turn[]; asides: Aside[] }> {
  const warm: Warm[] = [];
  for (const subject of subjects) {
    const { server, call } = subject;
    const target = { url: server.url(call.http), call, folder };
    const bytes = await checkAnswer(subject);
    const first = await loadPeak(target, FIRST_CALLS);
    const { callsPerSecond } = await loadPeak(target, first.callsPerSecond * durations.warmUp);
    server.forgetPeak();
    warm.push({ ...subject, target, bytes, callsPerSecond });
  }
  const turns: Turn[] = [];
  for (let i = 0; i < count; i++) {
    // Reverse the order after each turn, so that no server always runs after the same server.
    for (const each of i % 2 === 0 ? warm : warm.toReversed()) {
      turns.push({ round, number: round * count + i, ...(await takeTurn(each, durations.turn)) });
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

interface Warm extends Subject {
  readonly target: Parameters<typeof loadPeak>[0];
  readonly bytes: number;
  readonly callsPerSecond: number;
}

async function takeTurn(
  { server, call, target, bytes, callsPerSecond: rate }: Warm,
  seconds: number,
): Promise<Omit<Turn, "round" | "number">> {
  const started = performance.now();
  const cpuBefore = server.cpuSeconds();
  const before = serverCoreTimes();
  const { calls, callsPerSecond, bytesPerCall } = await loadPeak(target, rate * seconds);
  const cpuSeconds = server.cpuSeconds() - cpuBefore;
  const after = serverCoreTimes();
  const elapsed = (performance.now() - started) / 1000;
  if (Math.abs(bytesPerCall / bytes - 1) > 0.1) {
    throw new Error(`${server.row.key}, ${call.title}: answers have ${bytesPerCall} bytes under load, not ${bytes}`);
  }
  const serverBusy = cpuSeconds / elapsed;
  return {
    row: server.row.key,
    call: call.key,
    callsPerSecond,
    cpuMicros: (cpuSeconds * 1e6) / calls,
    serverBusy,
    othersBusy: Math.max(0, busyShare(before, after) - serverBusy),
  };
}

/**
 * Makes one call to a server.
 *
 * @returns the length of the answer's body
 */
async function checkAnswer({ server, call, reference }: Subject): Promise<number> {
  const { answer, bytes } = await ask(server.url(call.http), call, bodyOnce(call));
  try {
    requireAlike(call, answer, reference);
  } catch (cause) {
    throw new Error(`${server.row.key} gives a wrong answer to ${call.title}`, { cause });
  }
  return bytes;
}
