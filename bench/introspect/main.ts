import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ask } from "../ask.ts";
import { GROUP_FIELDS } from "../calls.ts";
import { busyShare, coreTimes, SERVER_CORE } from "../cores.ts";
import { type Latency, loadOnConnections } from "../load.ts";
import { describeMachine, freePort, pinToLoadCore, requireTools, startRedis } from "../machine.ts";
import { writeResults } from "../report.ts";
import { serviceRow } from "../rows.ts";
import { findRuntimes, type RuntimeInfo } from "../runtimes.ts";
import { type BenchServer, startServer } from "../servers.ts";
import { type Summary, summarise } from "../statistics.ts";
import { creation, type IntrospectCall, introspectCalls, type Subject } from "./calls.ts";

const API_TOKEN = "introspect-c2VjcmV0LXRva2VuLW9mLXRoZS1iZW5jaA";
const GROUP_ID = "acme-4711";

/** Each starts the service anew: how a process turns out differs by some per cent. */
const ROUNDS = 3;
/** In each round, to and fro. */
const TURNS = 6;
/** In seconds. */
const DURATIONS = { warmUp: 4, turn: 1.5 };
const QUICK = { warmUp: 0.5, turn: 0.4 };

/** So many calls tell roughly how fast a server is. */
const FIRST_CALLS = 1200;

/** What came of one call, over and over, as fast as it is answered. Processor time in microseconds a call. */
interface Turn {
  readonly name: string;
  /** Turns of one number were taken one right after the other. */
  readonly number: number;
  readonly callsPerSecond: number;
  readonly serviceMicros: number;
  readonly storeMicros: number;
  readonly latency: Latency;
  /** Share of its core that the service used. */
  readonly serverBusy: number;
  /** Share of the server's core that other processes took. */
  readonly othersBusy: number;
}

/** What takes turns: its processes, and where the files of the load go. */
interface Stage {
  readonly server: BenchServer;
  readonly redis: { cpuSeconds(): number };
  readonly folder: string;
}

/** @param args `--quick`: one round of short turns, to see that it works */
export async function main(args: readonly string[]): Promise<void> {
  requireTools();
  pinToLoadCore();
  const isQuick = args.includes("--quick");
  const rounds = isQuick ? 1 : ROUNDS;
  const [runtime] = findRuntimes(["node"]);
  if (!runtime) throw new Error("Node is not found");
  const turns: Turn[] = [];
  let calls: readonly IntrospectCall[] = [];
  for (let round = 0; round < rounds; round++) {
    await onStage(runtime, async (stage) => {
      calls = introspectCalls(await seed(stage.server.url(1)));
      turns.push(...(await takeTurns(stage, calls, { ...(isQuick ? QUICK : DURATIONS), round })));
    });
    console.error(`round ${round + 1} is done`);
  }
  const head =
    `${describeMachine([runtime])}; one worker on a core of its own, Redis and the load on the other. ` +
    `Medians of ${rounds * TURNS} turns in ${rounds} rounds, quartiles in brackets. ${noise(turns)}`;
  const text = [head, table(calls, turns), ratios(turns)].join("\n\n");
  console.log(text);
  if (isQuick) console.error("bench/results/ is left as it is: this was a part of a run");
  else writeResults("introspect", text);
}

/** Starts a Redis and a worker, and ends both. */
async function onStage(runtime: RuntimeInfo, work: (stage: Stage) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "ugs-introspect-"));
  const redis = await startRedis(folder);
  try {
    const server = await startServer(serviceRow("node"), runtime, {
      HOST: "127.0.0.1",
      PORT: String(await freePort()),
      REDIS_URL: redis.url,
      REDIS_TIMEOUT: "10s",
      TOKEN_KEYS: `k1:${Buffer.alloc(32, 7).toString("base64")}`,
      API_TOKENS: `bench/Customer=${API_TOKEN}`,
    });
    try {
      await work({ server, redis, folder });
    } finally {
      await server.stop();
    }
  } finally {
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Makes a group and a session of it. */
async function seed(url: string): Promise<Subject> {
  const made = creation({ apiToken: API_TOKEN, groupId: GROUP_ID });
  const path = "/usergroup.v1.UserGroupService/GetUserGroup";
  const body = Buffer.from(JSON.stringify({ userGroupId: GROUP_ID, ...GROUP_FIELDS }));
  const { answer } = await ask(url, { ...made, path, body });
  const { token } = answer["userGroup"] as { token: string };
  const { session } = (await ask(url, made)).answer;
  return { apiToken: API_TOKEN, groupId: GROUP_ID, userGroupToken: token, session: String(session) };
}

async function takeTurns(
  stage: Stage,
  calls: readonly IntrospectCall[],
  { warmUp, turn, round }: { readonly warmUp: number; readonly turn: number; readonly round: number },
): Promise<Turn[]> {
  const rates = new Map<IntrospectCall, number>();
  for (const call of calls) {
    await requireAnswer(stage, call);
    const target = { url: stage.server.url(1), call, folder: stage.folder };
    const first = await loadOnConnections(target, call.connections, FIRST_CALLS);
    const warm = await loadOnConnections(target, call.connections, first.callsPerSecond * warmUp);
    rates.set(call, warm.callsPerSecond);
  }
  const turns: Turn[] = [];
  for (let i = 0; i < TURNS; i++) {
    // To and fro, so that none always follows the same other.
    for (const call of i % 2 === 0 ? calls : calls.toReversed()) {
      const number = round * TURNS + i;
      turns.push({ number, ...(await takeTurn(stage, call, (rates.get(call) ?? 0) * turn)) });
    }
  }
  return turns;
}

async function takeTurn(
  { server, redis, folder }: Stage,
  call: IntrospectCall,
  count: number,
): Promise<Omit<Turn, "number">> {
  const started = performance.now();
  const before = coreTimes();
  const [server0, redis0] = [server.cpuSeconds(), redis.cpuSeconds()];
  const target = { url: server.url(1), call, folder };
  const { calls, callsPerSecond, latency } = await loadOnConnections(target, call.connections, count);
  const [serverSeconds, redisSeconds] = [server.cpuSeconds() - server0, redis.cpuSeconds() - redis0];
  const after = coreTimes();
  const serverBusy = (serverSeconds * 1000) / (performance.now() - started);
  return {
    name: call.name,
    callsPerSecond,
    serviceMicros: (serverSeconds * 1e6) / calls,
    storeMicros: (redisSeconds * 1e6) / calls,
    latency,
    serverBusy,
    othersBusy: Math.max(0, busyShare(SERVER_CORE, before, after) - serverBusy),
  };
}

/** @throws when a call is not answered as it should be: an inactive token is answered by 200 as well */
async function requireAnswer({ server }: Stage, call: IntrospectCall): Promise<void> {
  const { answer } = await ask(server.url(1), call);
  const isRight =
    call.path === "/api/viewer" ? answer["active"] === true && answer["sub"] === GROUP_ID : "id" in answer;
  if (!isRight) throw new Error(`${call.title}: answered with ${JSON.stringify(answer)}`);
}

function table(calls: readonly IntrospectCall[], turns: readonly Turn[]): string {
  const lines = [
    "| call | connections | calls a second | CPU µs a call: service | store | calls a second for each core | p50 ms | p99 ms |",
    "|---|--:|--:|--:|--:|--:|--:|--:|",
  ];
  for (const { name, title, connections } of calls) {
    const own = turns.filter((turn) => turn.name === name);
    const of = (pick: (turn: Turn) => number) => summarise(own.map(pick));
    // Where the service did not use its core up, something else was the limit.
    const bound = of((turn) => turn.serverBusy).median < 0.9 ? "≥ " : "";
    const perCore = of((turn) => 1e6 / (turn.serviceMicros + turn.storeMicros));
    const cells = [
      bound + whole(of((turn) => turn.callsPerSecond).median),
      brackets(
        of((turn) => turn.serviceMicros),
        (figure) => figure.toFixed(1),
      ),
      of((turn) => turn.storeMicros).median.toFixed(1),
      brackets(perCore, whole),
      of((turn) => turn.latency.p50).median.toFixed(1),
      of((turn) => turn.latency.p99).median.toFixed(1),
    ];
    lines.push(`| ${title} | ${connections} | ${cells.join(" | ")} |`);
  }
  return lines.join("\n");
}

/** What a session costs beside a token, turn by turn. */
function ratios(turns: readonly Turn[]): string {
  const lines = ["| a session ÷ a token, CPU a call | at most | service | with the store |", "|---|--:|--:|--:|"];
  for (const connections of [100, 600]) {
    const pairs = turns
      .filter(({ name }) => name === `session-${connections}`)
      .flatMap((session) => {
        const isBeside = ({ name, number }: Turn) => name === `token-${connections}` && number === session.number;
        const token = turns.find(isBeside);
        return token ? [{ session, token }] : [];
      });
    const of = (pick: (turn: Turn) => number) =>
      brackets(summarise(pairs.map(({ session, token }) => pick(session) / pick(token))), (figure) =>
        figure.toFixed(2),
      );
    const both = of((turn) => turn.serviceMicros + turn.storeMicros);
    lines.push(`| ${connections} connections | 1.20 | ${of((turn) => turn.serviceMicros)} | ${both} |`);
  }
  return lines.join("\n");
}

function noise(turns: readonly Turn[]): string {
  const { median, high } = summarise(turns.map(({ othersBusy }) => 100 * othersBusy));
  return `Other processes took ${Math.round(median)} % of the service's core, in a quarter of the turns more than ${Math.round(high)} %.`;
}

function brackets({ median, low, high }: Summary, format: (figure: number) => string): string {
  return `${format(median)} (${format(low)}–${format(high)})`;
}

function whole(figure: number): string {
  return Math.round(figure).toLocaleString("en");
}
