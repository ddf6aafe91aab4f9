import type { SubjectServer } from "../attacks/subject.ts";
import { cases } from "./cases.ts";
import { type Ask, exchangesOf } from "./exchange.ts";
import { play } from "./play.ts";
import { describeScript, type Script } from "./script.ts";
import { Watched } from "./watched.ts";

/** Number of concurrent connections, and of connections between two checks of the server. */
const AT_ONCE = 24;
const PER_BATCH = 240;
/** Share of the time for the warm-up, and seconds between memory checks. */
const WARM_UP_SHARE = 0.2;
const ROUND_SECONDS = 30;
/** Number of replays of a batch, because a bug may not occur each time. */
const TRIES = 3;

/** The fuzzed server. */
export interface Fuzzed {
  readonly name: string;
  /** Requests to split and mutate. The first three carry a valid token. */
  readonly corpus: readonly Ask[];
  start(): Promise<SubjectServer>;
}

/** Options of a fuzz run. */
export interface Plan {
  readonly seconds: number;
  /** Determines the scripts. */
  readonly seed: number;
  /** Whether to end the run early. */
  readonly isEnding: () => boolean;
}

/** Plays scripts until the time is over or a fault is found. @returns whether a fault was found */
export async function fuzz(fuzzed: Fuzzed, { seconds, seed, isEnding }: Plan): Promise<boolean> {
  const scripts = cases(seed, exchangesOf(fuzzed.corpus));
  const begun = performance.now();
  const elapsed = () => (performance.now() - begun) / 1000;
  const subject = await Watched.of(await fuzzed.start());
  let batches = 0;
  let isWarm = false;
  let checkedAt = 0;
  const log = async (when: string) =>
    console.log(`${when} ${batches * PER_BATCH} connections in ${Math.round(elapsed())} s: ${await subject.state()}`);
  try {
    while (elapsed() < seconds && !isEnding()) {
      const fault = await faultAfter(subject, nextBatch(scripts));
      batches++;
      if (fault !== undefined) {
        console.log(`\nFINDING in batch ${batches}: ${fault}`);
        console.log(`to replay it, run: npm run fuzz -- --subject ${fuzzed.name} --seed ${seed} --batch ${batches}`);
        return true;
      }
      if (!isWarm && elapsed() > seconds * WARM_UP_SHARE) {
        await subject.noteWarm();
        isWarm = true;
        checkedAt = elapsed();
        await log("warm after");
      } else if (isWarm && elapsed() - checkedAt > ROUND_SECONDS) {
        if ((await subject.leak()) !== undefined) break;
        checkedAt = elapsed();
        await log("after");
      }
    }
    const leak = isWarm ? await subject.leak() : undefined;
    await log("at the end, after");
    if (leak !== undefined) console.log(`\nFINDING: ${leak}`);
    return leak !== undefined;
  } finally {
    await subject.stop();
  }
}

/**
 * Plays each script of a batch alone, and then the whole batch, until a fault occurs. Prints the fault, and its script.
 *
 * @param batch number of the batch, from 1
 * @returns whether a fault was found
 */
export async function replay(
  fuzzed: Fuzzed,
  { seed, batch, isEnding }: Pick<Plan, "seed" | "isEnding"> & { readonly batch: number },
): Promise<boolean> {
  const scripts = cases(seed, exchangesOf(fuzzed.corpus));
  for (let i = 1; i < batch; i++) nextBatch(scripts);
  const played = nextBatch(scripts);
  const together = Array.from({ length: TRIES }, () => played);
  const alone = played.map((script) => Array.from({ length: AT_ONCE }, () => script));
  for (const attempts of [alone, together]) {
    const subject = await Watched.of(await fuzzed.start());
    try {
      for (const attempt of attempts) {
        if (isEnding()) return false;
        const fault = await faultAfter(subject, attempt);
        if (fault === undefined) continue;
        console.log(`FINDING: ${fault}`);
        if (attempts === alone) console.log(attempt.slice(0, 1).map(describeScript).join("\n"));
        return true;
      }
    } finally {
      await subject.stop();
    }
  }
  return false;
}

function nextBatch(scripts: Generator<Script, never>): Script[] {
  return Array.from({ length: PER_BATCH }, () => scripts.next().value);
}

/** Plays scripts, some of them concurrently. @returns a fault of the server, or a missing response */
async function faultAfter(subject: Watched, batch: readonly Script[]): Promise<string | undefined> {
  let unanswered: string | undefined;
  const queue = [...batch];
  const player = async () => {
    for (let script = queue.shift(); script; script = queue.shift()) {
      const why = await play(subject.server.url, script);
      if (why !== undefined) unanswered ??= `${why}\n${describeScript(script)}`;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, player));
  return (await subject.fault()) ?? unanswered;
}
