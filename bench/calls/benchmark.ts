import { startRedis } from "../../test/support/redis.ts";
import type { CallKey } from "../calls.ts";
import { READS, type Row, serviceRow } from "../rows.ts";
import type { RuntimeInfo } from "../runtimes.ts";
import type { BenchServer } from "../servers.ts";
import { onStage, PATIENT, type Stage } from "../stage.ts";
import { median } from "../statistics.ts";
import { type Aside, type Durations, type Turn, takeTurns } from "../turns.ts";
import { peerSettings } from "./peer-records.ts";
import { type Seeded, seed } from "./seed.ts";

export interface Plan {
  /** Servers to compare. The servers take turns. */
  readonly rows: readonly Row[];
  /** Runtimes of the servers in `rows`. The list must include `node`. */
  readonly runtimes: readonly RuntimeInfo[];
  readonly calls: readonly CallKey[];
  /**
   * Number of rounds. Each round restarts every server, because the CPU time of two processes of the same program
   * differs by a few percent.
   */
  readonly rounds: number;
  readonly turns: number;
  readonly durations: Durations;
}

export interface Results {
  readonly startMs: readonly number[];
  readonly turns: readonly Turn[];
  readonly asides: readonly Aside[];
}

const STARTS = 5;

/**
 * Starts a Redis and runs a plan on this Redis.
 *
 * @throws if a server does not start, or if an answer of a server differs from the answer of the service
 */
export async function runBenchmark(plan: Plan): Promise<Results> {
  return onStage(plan.runtimes, await startRedis(), async (stage) => {
    const results = { startMs: await startTimes(stage), turns: [] as Turn[], asides: [] as Aside[] };
    const seeds = new Map<number, Seeds>();
    for (const row of plan.rows) {
      if (!seeds.has(row.database)) seeds.set(row.database, await seed(stage, row, plan.calls));
    }
    for (let round = 0; round < plan.rounds; round++) {
      const { turns, asides } = await runRound(plan, round, { stage, seeds });
      results.turns.push(...turns);
      results.asides.push(...asides);
    }
    return results;
  });
}

/** The calls for one Redis database, each with the answer of the service. All servers must give this answer. */
type Seeds = ReadonlyMap<CallKey, Seeded>;

async function runRound(
  plan: Plan,
  round: number,
  { stage, seeds }: { readonly stage: Stage; readonly seeds: ReadonlyMap<number, Seeds> },
): Promise<{ turns: Turn[]; asides: Aside[] }> {
  const found = { turns: [] as Turn[], asides: [] as Aside[] };
  const servers: BenchServer[] = [];
  for (const row of plan.rows) {
    const settings = row.storage === "service" ? PATIENT : peerSettings(row.storage);
    if (row.calls.some((key) => plan.calls.includes(key))) servers.push(await stage.start(row, settings));
  }
  for (const key of plan.calls) {
    const subjects = servers.flatMap((server) => {
      const seeded = server.row.calls.includes(key) ? seeds.get(server.row.database)?.get(key) : undefined;
      return seeded ? [{ server, ...seeded }] : [];
    });
    // Calls that change data have shorter turns, because no peer supports these calls.
    const turn = READS.includes(key) ? plan.durations.turn : plan.durations.turn / 2;
    const options = { durations: { ...plan.durations, turn }, turns: plan.turns, round };
    const { turns, asides } = await takeTurns(subjects, stage.folder, options);
    found.turns.push(...turns);
    found.asides.push(...asides);
    for (const { server, call } of subjects) console.error(progress(round, server.row.key, call.title, turns));
  }
  for (const server of servers) await server.stop();
  return found;
}

function progress(round: number, row: string, title: string, turns: readonly Turn[]): string {
  const of = (pick: (turn: Turn) => number) => median(turns.filter((turn) => turn.row === row).map(pick));
  const busy = Math.round(100 * of((turn) => turn.othersBusy));
  return `round ${round + 1}, ${title}, ${row}: ${of((turn) => turn.cpuMicros).toFixed(1)} µs, others ${busy} %`;
}

/** Starts the service several times. Returns the time from each start until the service listens, in milliseconds. */
async function startTimes({ start }: Stage): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    const server = await start(serviceRow("node"));
    times.push(server.startMs);
    await server.stop();
  }
  return times;
}
