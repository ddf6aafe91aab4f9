import "../../src/server/runtime.ts";
import { Audit } from "../../src/store/audit.ts";
import type { ScriptedRedis } from "../../src/store/connection/connection.ts";
import { TokenCipher } from "../../src/store/encryption.ts";
import { redisUserGroups } from "../../src/store/groups/user-groups.ts";
import { environmentKey } from "../../src/store/keys.ts";
import { openRedis } from "../../test/support/open-redis.ts";
import { startRedis } from "../../test/support/redis.ts";
import { redisOf } from "../../test/support/redis-of.ts";
import { LOAD_CORE, SERVER_CORE } from "../cores.ts";
import { describeMachine, pinTo, prepareMachine } from "../machine.ts";
import { report, table, whole } from "../report.ts";
import { type CallFigures, measureCalls } from "./calls.ts";
import { BY, ENVIRONMENT, KINDS, type Kind, payloadOf } from "./groups.ts";
import { measureScripts, type ScriptFigures } from "./scripts.ts";

const SIZES = [1000, 200_000, 1_000_000];
/** Number of calls of each kind, at the first and the last size. */
const CALLS = 4000;
const BATCH = 1000;

const EXPLANATION = `- **bytes a group**: growth of Redis' \`used_memory\` per group, with the group's hash, index entries and audit event.
  **payload**: size of the group's values in a response, in bytes.
- **compact**: share of the groups in a sample that Redis stores as a \`listpack\`.
- **p50, p99**: latency of calls to the store for random groups, with one call at a time. **CPU µs**: CPU time per call
  of the calling process and of Redis, with 64 calls in flight.
- **scripts**: duration of the longest scripts in Redis at the last size, with 1,000 API tokens. Other work of the machine interrupts some runs, which increases the p90. All other scripts take less than 0.05 ms.`;

interface Size {
  readonly groups: number;
  readonly used: number;
  readonly payload: number;
  readonly compact: number;
  readonly audit: number;
  readonly calls: readonly CallFigures[] | undefined;
  readonly scripts: readonly ScriptFigures[];
}

/** @param args `--quick` creates a hundredth of the groups, to check that the benchmark works */
export async function main(args: readonly string[]): Promise<void> {
  prepareMachine();
  const isQuick = args.includes("--quick");
  const sizes = SIZES.map((groups) => (isQuick ? Math.max(1000, groups / 100) : groups));
  const began = performance.now();
  const parts = [`${describeMachine([])}; Node ${process.versions.node}. Redis has no persistence.`, EXPLANATION];
  for (const kind of KINDS) parts.push(section(kind, await grow(kind, [...new Set(sizes)], isQuick ? 500 : CALLS)));
  console.error(`took ${((performance.now() - began) / 60_000).toFixed(1)} minutes`);
  report(parts.join("\n\n"), isQuick ? undefined : "growth");
}

async function grow(kind: Kind, sizes: readonly number[], calls: number): Promise<Size[]> {
  pinTo(LOAD_CORE);
  const redis = await startRedis(["--hash-max-listpack-value", String(kind.compactValueBytes)]);
  pinTo(SERVER_CORE);
  const client = await openRedis(redis.url, { timeoutMs: 30_000 });
  try {
    const cipher = new TokenCipher([{ id: "k1", secret: Buffer.alloc(32, 7) }]);
    const record = { state: "active", path: "acme/Customer", create_time: String(Date.now()) };
    await redisOf(client).hset(environmentKey(ENVIRONMENT.number), record);
    const deps = { client, cipher, audit: new Audit(90 * 86_400_000) };
    const store = redisUserGroups(deps);
    const measured: Size[] = [];
    const empty = await usedMemory(redisOf(client));
    let made = 0;
    let payload = 0;
    for (const groups of sizes) {
      while (made < groups) {
        const numbers = Array.from({ length: BATCH }, (_, i) => made + i);
        const created = await Promise.all(
          numbers.map((number) => store.getOrCreate(ENVIRONMENT, kind.group(number), BY)),
        );
        for (const { group } of created) payload += payloadOf(group);
        made += BATCH;
      }
      const used = ((await usedMemory(redisOf(client))) - empty) / groups;
      const compact = await compactShare(redisOf(client));
      const audit = (await auditMemory(redisOf(client))) / groups;
      const plan = { kind, groups, calls };
      const isEnd = groups === sizes[0] || groups === sizes.at(-1);
      // The first calls are slow, because the runtime has not compiled the code yet. So the benchmark discards their
      // figures.
      if (groups === sizes[0]) await measureCalls(store, redisOf(client), plan);
      const figures = isEnd ? await measureCalls(store, redisOf(client), plan) : undefined;
      const scripts = groups === sizes.at(-1) ? await measureScripts(deps, redisOf(client)) : [];
      measured.push({ groups, used, payload: payload / groups, compact, audit, calls: figures, scripts });
      console.error(`${kind.title}: ${groups} groups`);
    }
    return measured;
  } finally {
    client.close();
    await redis.stop();
  }
}

function section({ title }: Kind, sizes: readonly Size[]): string {
  const memory = sizes.map(({ groups, used, payload, compact, audit }) => {
    const bytes = [used, audit, payload].map((figure) => figure.toFixed(0));
    return [whole(groups), ...bytes, (used / payload).toFixed(2), `${(100 * compact).toFixed(0)} %`];
  });
  const calls = sizes.flatMap(({ groups, calls: figures = [] }) =>
    figures.map(({ title: call, p50, p99, storeMicros, redisMicros }) => {
      return [call, whole(groups), p50.toFixed(2), p99.toFixed(2), storeMicros.toFixed(0), redisMicros.toFixed(0)];
    }),
  );
  const scripts = sizes.flatMap((size) =>
    size.scripts.map(({ title: script, runs, p50, p90 }) => [script, whole(runs), p50.toFixed(2), p90.toFixed(2)]),
  );
  return [
    `### Groups with ${title}`,
    table([">groups", ">bytes a group", ">of which audit", ">payload", ">bytes ÷ payload", ">compact"], memory),
    table(["call", ">groups", ">p50 ms", ">p99 ms", ">store, CPU µs", ">Redis, CPU µs"], calls.sort()),
    table(["script", ">runs", ">p50 ms", ">p90 ms"], scripts.sort()),
  ].join("\n\n");
}

async function usedMemory(redis: ScriptedRedis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info("memory"))?.[1]);
}

async function auditMemory(redis: ScriptedRedis): Promise<number> {
  const days = await Promise.all(["events", "updates"].map((stream) => redis.keys(`ug:*:${stream}:*`)));
  const streams = days.flat();
  const bytes = await Promise.all(streams.map((stream) => redis.memory("USAGE", stream, "SAMPLES", 0)));
  return bytes.reduce<number>((sum, each) => sum + (each ?? 0), 0);
}

/** Takes a random sample of groups. Returns the share of these groups that Redis stores with the compact encoding. */
async function compactShare(redis: ScriptedRedis): Promise<number> {
  const keys = Array.from({ length: 500 }, () => redis.randomkey());
  const groups = (await Promise.all(keys)).filter((key): key is string => key?.includes("}:group:") === true);
  const encodings = await Promise.all(groups.map((key) => redis.object("ENCODING", key)));
  return encodings.filter((encoding) => encoding === "listpack").length / encodings.length;
}
