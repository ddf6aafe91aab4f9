import { type Bystander, bystanderOf } from "@user-group-service/testing/attacks/bystander";
import type { SubjectServer } from "@user-group-service/testing/attacks/subject";
import { unexpectedIn } from "@user-group-service/testing/attacks/unexpected";
import { isRunning } from "@user-group-service/testing/process";
import { descriptorsOf, heldBytesOf } from "@user-group-service/testing/process-usage";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { type Ask, exchangesOf } from "./exchange.ts";
import { cases } from "./mutate.ts";
import { describeScript, play, type Script } from "./play.ts";

const AT_ONCE = 24;
const PER_BATCH = 240;
/**
 * Length of the warm-up as a share of the duration. The fuzzer measures memory and descriptors after the warm-up and at
 * the end.
 */
const WARM_UP_SHARE = 0.2;
const WARM_UP_CALLS = 30;
/** Maximum growth of file descriptors, and of memory in bytes, after the warm-up. */
const SPARE_DESCRIPTORS = 12;
const SPARE_BYTES = 64 * 1024 * 1024;

interface Plan {
  /** Requests that the fuzzer splits and mutates. The first three must carry a valid token. */
  readonly corpus: readonly Ask[];
  readonly seconds: number;
  /** Seed of the random numbers. The same seed gives the same scripts. */
  readonly seed: number;
  /**
   * Number of the batch to replay. The first batch is 1. The fuzzer plays copies of each script, and then the whole
   * batch. If undefined, the fuzzer plays all batches.
   */
  readonly batch: number | undefined;
  readonly isEnding: () => boolean;
}

/** Plays scripts against a server until the time is over or a fault is found. @returns whether a fault was found */
export async function fuzz(server: SubjectServer, plan: Plan): Promise<boolean> {
  const bystander = bystanderOf(server);
  try {
    for (let i = 0; i < WARM_UP_CALLS; i++) await bystander.call();
    const { seed, batch } = plan;
    const scripts = cases(seed, exchangesOf(plan.corpus));
    const next = () => Array.from({ length: PER_BATCH }, () => scripts.next().value);
    const fault =
      batch === undefined
        ? await faultInTime(bystander, next, plan)
        : await faultIn(bystander, batchAt(batch, next), plan);
    if (fault === undefined) return false;
    console.log(`\nFINDING: ${fault}`);
    return true;
  } finally {
    bystander.close();
    await server.end();
  }
}

async function faultInTime(
  bystander: Bystander,
  next: () => Script[],
  { seconds, seed, isEnding }: Plan,
): Promise<string | undefined> {
  const { server } = bystander;
  const begun = performance.now();
  const elapsed = () => (performance.now() - begun) / 1000;
  let warm: Usage | undefined;
  for (let batch = 1; elapsed() < seconds && !isEnding(); batch++) {
    const fault = await faultAfter(bystander, next());
    if (fault !== undefined)
      return `${fault}\nto replay it, use the same runtime, and run: npm run fuzz -- --seed ${seed} --batch ${batch}`;
    if (!warm && elapsed() > seconds * WARM_UP_SHARE) {
      warm = await usageOf(server);
      console.log(`after the warm-up of ${batch * PER_BATCH} connections: ${textOf(warm)}`);
    }
  }
  return warm && leakSince(warm, server);
}

function batchAt(number: number, next: () => Script[]): Script[] {
  for (let i = 1; i < number; i++) next();
  return next();
}

/** Plays many copies of each script of a batch, and then the whole batch, until a fault is found. */
async function faultIn(bystander: Bystander, batch: Script[], { isEnding }: Plan): Promise<string | undefined> {
  for (const attempt of [...batch.map((script) => Array.from({ length: AT_ONCE }, () => script)), batch]) {
    const fault = isEnding() ? undefined : await faultAfter(bystander, attempt);
    if (fault !== undefined) return attempt === batch ? fault : `${fault}\n${describeScript(attempt[0] as Script)}`;
  }
  return undefined;
}

/** Plays scripts, at most `AT_ONCE` at a time. @returns a description of the fault. Undefined if there is no fault */
async function faultAfter(bystander: Bystander, batch: readonly Script[]): Promise<string | undefined> {
  const { server } = bystander;
  let unanswered: string | undefined;
  const queue = [...batch];
  const player = async () => {
    for (let script = queue.shift(); script; script = queue.shift()) {
      const why = await play(server.url, script);
      if (why !== undefined) unanswered ??= `${why}\n${describeScript(script)}`;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, player));
  const failure = await bystander.call().catch((error: unknown) => `an ordinary call failed: ${String(error)}`);
  if (!isRunning(server.pid)) return `the process exited:\n${server.output().slice(-3000)}`;
  const [line] = unexpectedIn(server);
  return line === undefined ? (failure ?? unanswered) : `the server logged: ${line}`;
}

/** File descriptors and memory of a server that has no open connections. */
interface Usage {
  readonly descriptors: number;
  readonly bytes: number;
}

/** Measures file descriptors and memory after the number of file descriptors has become stable. */
async function usageOf(server: SubjectServer): Promise<Usage> {
  let descriptors = Number.POSITIVE_INFINITY;
  await waitFor("the number of descriptors is stable", async () => {
    await pause(1000);
    const before = descriptors;
    descriptors = descriptorsOf(server.pid);
    return descriptors >= before;
  });
  return { descriptors, bytes: await heldBytesOf(server) };
}

async function leakSince(warm: Usage, server: SubjectServer): Promise<string | undefined> {
  const most = warm.descriptors + SPARE_DESCRIPTORS;
  await waitFor("the descriptors are closed", () => descriptorsOf(server.pid) <= most).catch(() => {});
  const now = await usageOf(server);
  console.log(`at the end: ${textOf(now)}`);
  const isLeak = now.descriptors > most || now.bytes > warm.bytes + SPARE_BYTES;
  return isLeak ? `the server uses ${textOf(now)}, but used ${textOf(warm)} after the warm-up` : undefined;
}

function textOf({ descriptors, bytes }: Usage): string {
  return `${Math.round(bytes / 1024 / 1024)} MiB, ${descriptors} descriptors`;
}
