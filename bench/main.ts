import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ask } from "./ask.ts";
import { type Answer, type CallKey, calls, GROUP_FIELDS, type Subject } from "./calls.ts";
import { describeMachine, freePort, pinToLoadCore, requireTools, startRedis } from "./machine.ts";
import { type Durations, type Measurement, measure, newGroup, type RunningServer } from "./measure.ts";
import { insertReport, median, type Results, report } from "./report.ts";
import { RUNTIMES, type Runtime, SERVERS, type ServerSpec, startServer } from "./servers.ts";

const USAGE = `Usage: npm run bench -- [options]
  --quick         one short round, to see that it works; writes no page
  --rounds N      rounds (default 5)
  --runtime NAME  node or deno (default node)
  --only KEYS     comma list of servers: ${SERVERS.map(({ key }) => key).join(", ")}; writes no page
  --json FILE     keep the raw figures`;

const PAGE = "docs/performance.md";
const API_TOKEN = "bench-c2VjcmV0LXRva2VuLW9mLXRoZS1iZW5jaA";
const STARTS = 5;
const FULL: Durations = { warmUp: 6, peak: 4, paced: 4 };
const QUICK: Durations = { warmUp: 3, peak: 2, paced: 2 };

/** What every server is given. */
type Env = { readonly [name: string]: string };

/** The servers whose latency this service is compared to, at their rate. */
const PEER_OF: { readonly [call in CallKey]?: ServerSpec["key"] } = {
  grpcGet: "grpcJs",
  connectGet: "fastify",
  restGet: "fastify",
};

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      quick: { type: "boolean", default: false },
      rounds: { type: "string" },
      runtime: { type: "string", default: "node" },
      only: { type: "string" },
      json: { type: "string" },
    },
  });
  const { quick, only, json } = values;
  const runtime = RUNTIMES.find((name) => name === values.runtime);
  const rounds = Number(values.rounds ?? (quick ? 1 : 5));
  if (!runtime || !(rounds >= 1)) throw new Error(USAGE);
  const specs = SERVERS.filter(
    ({ key, runtimes }) => runtimes.includes(runtime) && (!only || only.split(",").includes(key)),
  );
  requireTools();
  pinToLoadCore();

  const folder = mkdtempSync(join(tmpdir(), "ugs-bench-"));
  const redis = await startRedis(folder);
  try {
    const env = { ...settings(redis.url), PORT: String(await freePort()) };
    const startMs = await startTimes(runtime, env);
    const { subject, references } = await seed(runtime, env);
    const measurements: Measurement[] = [];
    for (let round = 1; round <= rounds; round++) {
      const plan = { round, runtime, env, subject, references, folder, durations: quick ? QUICK : FULL };
      await measureRound(specs, plan, measurements);
    }
    const results: Results = { runtime, machine: describeMachine(runtime), rounds, startMs, measurements };
    if (json !== undefined) writeFileSync(json, `${JSON.stringify(results, undefined, 1)}\n`);
    const text = report(results);
    console.log(text);
    if (!quick && !only) writeFileSync(PAGE, insertReport(readFileSync(PAGE, "utf8"), runtime, text));
  } finally {
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface RoundPlan {
  readonly round: number;
  readonly runtime: Runtime;
  readonly env: Env;
  readonly subject: Subject;
  readonly references: ReadonlyMap<CallKey, Answer>;
  readonly folder: string;
  readonly durations: Durations;
}

/** Starts every server, and measures call after call on all that know it. */
async function measureRound(
  specs: readonly ServerSpec[],
  { subject, references, ...plan }: RoundPlan,
  measurements: Measurement[],
): Promise<void> {
  const servers: RunningServer[] = [];
  try {
    for (const spec of specs) {
      const env = { ...plan.env, PORT: String(await freePort()) };
      servers.push({ spec, server: await startServer(spec, plan.runtime, env) });
    }
    for (const [key, call] of calls(subject)) {
      const reference = references.get(key);
      if (!reference) throw new Error(`${key} has not been answered`);
      const those = servers.filter(({ spec }) => spec.calls.includes(key));
      for (const result of await measure(those, { ...plan, call, reference, peer: PEER_OF[key] })) {
        measurements.push(result);
        console.error(
          `round ${plan.round}, ${result.server}, ${call.title}: ${Math.round(result.callsPerSecond)} calls/s, ` +
            `p99 ${result.paced.p99.toFixed(2)} ms, ${result.cpuMicros.toFixed(1)} µs, ` +
            `server ${Math.round(result.serverBusy * 100)} %, load ${Math.round(result.loadBusy * 100)} %, others ${Math.round(result.othersBusy * 100)} %`,
        );
      }
    }
  } finally {
    for (const { server } of servers) await server.stop();
  }
}

function settings(redisUrl: string): Env {
  return {
    REDIS_URL: redisUrl,
    TOKEN_KEYS: `bench:${Buffer.alloc(32, 7).toString("base64")}`,
    API_TOKENS: `bench/Customer=${API_TOKEN}`,
    // The peers wait as long as it takes: a busy machine is not to fail the service's calls alone.
    REDIS_TIMEOUT: "10s",
  };
}

/** How long the service takes from its start until it listens, in milliseconds. */
async function startTimes(runtime: Runtime, env: Env): Promise<number[]> {
  const spec = service();
  const times: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    const server = await startServer(spec, runtime, env);
    times.push(server.startMs);
    await server.stop();
  }
  console.error(`start to listening: ${Math.round(median(times))} ms`);
  return times;
}

/** Has the service write the groups, and notes what it answers to each call. */
async function seed(runtime: Runtime, env: Env): Promise<Pick<RoundPlan, "subject" | "references">> {
  const server = await startServer(service(), runtime, env);
  try {
    const made = { apiToken: API_TOKEN, readId: "acme-4711", writtenId: "acme-4712", userGroupToken: "" };
    const creator = calls(made).get("create");
    if (!creator) throw new Error("there is no call that creates");
    const tokenOf = async (id: string) => {
      const body = Buffer.from(JSON.stringify({ userGroupId: id, ...GROUP_FIELDS }));
      const { answer } = await ask(server.url, creator, body);
      return (answer["userGroup"] as { token: string }).token;
    };
    const subject = { ...made, userGroupToken: await tokenOf(made.readId) };
    await tokenOf(made.writtenId);
    // In this order a rotation answers with the group as updates leave it.
    const references = new Map<CallKey, Answer>();
    for (const [key, call] of calls(subject)) {
      const { answer } = await ask(server.url, call, key === "create" ? newGroup(call, 0) : call.body);
      references.set(key, answer);
    }
    return { subject, references };
  } finally {
    await server.stop();
  }
}

function service(): ServerSpec {
  const spec = SERVERS.find(({ key }) => key === "service");
  if (!spec) throw new Error("the service is no row");
  return spec;
}
