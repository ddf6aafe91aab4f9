import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ask } from "./ask.ts";
import { type Answer, type CallKey, calls, GROUP_FIELDS, type Subject } from "./calls.ts";
import { freePort, startRedis } from "./machine.ts";
import { peerSettings, writePeerRecords } from "./peer-records.ts";
import { READS, type Row, serviceRow } from "./rows.ts";
import type { RuntimeInfo } from "./runtimes.ts";
import { type BenchServer, startServer } from "./servers.ts";
import { median } from "./statistics.ts";
import { type Aside, type Durations, newGroup, type Turn, takeTurns } from "./turns.ts";

/** What is to be measured, and how thoroughly. */
export interface Plan {
  /** Servers that take turns with each other; none of another group runs meanwhile. */
  readonly groups: readonly (readonly Row[])[];
  /** Those that the rows name; `node` among them. */
  readonly runtimes: readonly RuntimeInfo[];
  readonly calls: readonly CallKey[];
  /** Each starts every server anew: how a process turns out differs by some per cent. */
  readonly rounds: number;
  /** In each round. */
  readonly turns: number;
  readonly durations: Durations;
}

/** Everything that a run found out. */
export interface Results {
  /** From the start of the service until it listened, in milliseconds. */
  readonly startMs: readonly number[];
  readonly turns: readonly Turn[];
  readonly asides: readonly Aside[];
}

type Env = { readonly [name: string]: string };

const API_TOKEN = "bench-c2VjcmV0LXRva2VuLW9mLXRoZS1iZW5jaA";
const STARTS = 5;

/** Runs a plan on a Redis of its own. @throws when a server does not start, or answers otherwise than the service */
export async function runBenchmark(plan: Plan): Promise<Results> {
  const folder = mkdtempSync(join(tmpdir(), "ugs-bench-"));
  const redis = await startRedis(folder);
  try {
    const env = settings(redis.url);
    const start = async (row: Row) => {
      const runtime = plan.runtimes.find((info) => info.runtime === row.runtime);
      if (!runtime) throw new Error(`${row.key}: ${row.runtime} is not there`);
      const peer = row.storage === "service" ? {} : peerSettings(row.storage, API_TOKEN);
      return startServer(row, runtime, { ...env, ...peer, PORT: String(await freePort()) });
    };
    const startMs = await startTimes(start);
    const seeded = await seed(start, redis.url);
    const results = { startMs, turns: [] as Turn[], asides: [] as Aside[] };
    for (let round = 0; round < plan.rounds; round++) {
      for (const [group, rows] of plan.groups.entries()) {
        const bout = { rows, round, number: round * plan.groups.length + group };
        const { turns, asides } = await runBout(plan, bout, { ...seeded, start, folder });
        results.turns.push(...turns);
        results.asides.push(...asides);
      }
    }
    return results;
  } finally {
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

type Start = (row: Row) => Promise<BenchServer>;

interface Seeded {
  readonly subject: Subject;
  /** What the service answers to each call. */
  readonly references: ReadonlyMap<CallKey, Answer>;
}

/** What a group does in a round. */
interface Bout {
  readonly rows: readonly Row[];
  readonly round: number;
  /** Unique among all groups and rounds. */
  readonly number: number;
}

/** Starts every server of a group, and has them take turns at call after call. */
async function runBout(
  plan: Plan,
  { rows, round, number }: Bout,
  { start, folder, subject, references }: Seeded & { start: Start; folder: string },
): Promise<{ turns: Turn[]; asides: Aside[] }> {
  const found = { turns: [] as Turn[], asides: [] as Aside[] };
  const servers: BenchServer[] = [];
  try {
    for (const row of rows) {
      if (row.calls.some((key) => plan.calls.includes(key))) servers.push(await start(row));
    }
    for (const [key, call] of calls(subject)) {
      const those = servers.filter(({ row }) => row.calls.includes(key));
      const reference = references.get(key);
      if (!plan.calls.includes(key) || those.length === 0 || !reference) continue;
      // Changes have no peers to be told from by some per cent.
      const turn = READS.includes(key) ? plan.durations.turn : plan.durations.turn / 2;
      const durations = { ...plan.durations, turn };
      const options = { call, reference, durations, turns: plan.turns, bout: number, folder };
      const { turns, asides } = await takeTurns(those, options);
      found.turns.push(...turns);
      found.asides.push(...asides);
      for (const { row } of those) console.error(progress(round, row, call.title, found.turns, key));
    }
  } finally {
    for (const server of servers) await server.stop();
  }
  return found;
}

function progress(round: number, { key }: Row, title: string, turns: readonly Turn[], call: CallKey): string {
  const own = turns.filter((turn) => turn.row === key && turn.call === call);
  const of = (pick: (turn: Turn) => number) => median(own.map(pick));
  const share = (pick: (turn: Turn) => number) => `${Math.round(100 * of(pick))} %`;
  return (
    `round ${round + 1}, ${title}, ${key}: ${of((turn) => turn.cpuMicros).toFixed(1)} µs, ` +
    `${Math.round(of((turn) => turn.callsPerSecond))} calls/s, server ${share((turn) => turn.serverBusy)}, ` +
    `load ${share((turn) => turn.loadBusy)}, others ${share((turn) => turn.othersBusy)}`
  );
}

function settings(redisUrl: string): Env {
  return {
    HOST: "127.0.0.1",
    REDIS_URL: redisUrl,
    TOKEN_KEYS: `bench:${Buffer.alloc(32, 7).toString("base64")}`,
    API_TOKENS: `bench/Customer=${API_TOKEN}`,
    // The peers wait as long as it takes: a busy machine is not to fail the service's calls alone.
    REDIS_TIMEOUT: "10s",
  };
}

/** How long the service takes from its start until it listens, in milliseconds. */
async function startTimes(start: Start): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    const server = await start(serviceRow("node"));
    times.push(server.startMs);
    await server.stop();
  }
  return times;
}

/** Has the service write the groups, and notes what it answers to each call. */
async function seed(start: Start, redisUrl: string): Promise<Seeded> {
  const server = await start(serviceRow("node"));
  try {
    const made = { apiToken: API_TOKEN, readId: "acme-4711", writtenId: "acme-4712", userGroupToken: "" };
    const creator = calls(made).get("create");
    if (!creator) throw new Error("there is no call that creates");
    const create = async (id: string) => {
      const body = Buffer.from(JSON.stringify({ userGroupId: id, ...GROUP_FIELDS }));
      const { answer } = await ask(server.url(creator.http), creator, body);
      return answer["userGroup"] as Answer;
    };
    const group = await create(made.readId);
    await writePeerRecords(redisUrl, group);
    await create(made.writtenId);
    const subject = { ...made, userGroupToken: String(group["token"]) };
    // In this order a rotation answers with the group as updates leave it.
    const references = new Map<CallKey, Answer>();
    for (const [key, call] of calls(subject)) {
      const { answer } = await ask(server.url(call.http), call, key === "create" ? newGroup(call) : call.body);
      references.set(key, answer);
    }
    return { subject, references };
  } finally {
    await server.stop();
  }
}
