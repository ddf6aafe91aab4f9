import { readFileSync, writeFileSync } from "node:fs";
import type { SubjectServer } from "../attacks/subject.ts";
import { cases } from "./cases.ts";
import { type Ask, exchangesOf } from "./exchange.ts";
import { play } from "./play.ts";
import { describeScript, formatScripts, parseScripts, type Script } from "./script.ts";
import { Watched } from "./watched.ts";

/** Number of concurrent connections, and of connections between two checks of the server. */
const AT_ONCE = 24;
const PER_BATCH = 240;
/** Share of the time for the warm-up, and seconds between memory checks. */
const WARM_UP_SHARE = 0.2;
const ROUND_SECONDS = 30;
/** Number of replays of a suspect, because a bug may not occur each time. */
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
  readonly seed: number;
  /** Number of findings after which the run ends. */
  readonly most: number;
  /** File for the first finding. Further files have a number in their name. */
  readonly out: string;
  /** Log lines that are not findings. */
  readonly known: RegExp | undefined;
  /** Whether to end the run early. */
  readonly isEnding: () => boolean;
}

type Start = () => Promise<Watched>;

/** Runs scripts until the time is over. @returns the number of findings */
export async function fuzz(fuzzed: Fuzzed, { seconds, seed, most, out, known, isEnding }: Plan): Promise<number> {
  const start = async () => Watched.of(await fuzzed.start(), known);
  const scripts = cases(seed, exchangesOf(fuzzed.corpus));
  const begun = performance.now();
  const elapsed = () => (performance.now() - begun) / 1000;
  let subject = await start();
  let [played, found, lookedAt] = [0, 0, 0];
  let isWarm = false;
  const report = (what: string, batch: readonly Script[]) => {
    const file = found === 0 ? out : `${out}.${found}`;
    found++;
    writeFileSync(file, formatScripts(batch));
    console.log(
      `\nFINDING (seed ${seed}): ${what}\n${batch.slice(0, 3).map(describeScript).join("\n").slice(0, 6000)}`,
    );
    console.log(`saved to ${file}; to replay it, run: npm run fuzz -- --subject ${fuzzed.name} --replay ${file}\n`);
  };
  try {
    while (elapsed() < seconds && found < most && !isEnding()) {
      const batch = Array.from({ length: PER_BATCH }, () => scripts.next().value);
      const unanswered = await playAll(subject, batch);
      played += batch.length;
      const fault = await subject.fault();
      if (fault !== undefined) {
        await subject.stop();
        report(fault, await suspectsOf(start, batch, isEnding));
        subject = await start();
        isWarm = false;
        continue;
      }
      for (const { script, why } of unanswered.slice(0, 1)) report(why, [script]);
      if (!isWarm && elapsed() > seconds * WARM_UP_SHARE) {
        await subject.noteWarm();
        isWarm = true;
        lookedAt = elapsed();
        console.log(`warm after ${played} connections: ${await subject.state()}`);
      } else if (isWarm && elapsed() - lookedAt > ROUND_SECONDS) {
        const leak = await subject.leak();
        lookedAt = elapsed();
        console.log(`after ${played} connections: ${await subject.state()}`);
        if (leak !== undefined) report(leak, await leakersOf(start, batch, isEnding));
      }
    }
    const leak = isWarm ? await subject.leak() : undefined;
    if (leak !== undefined) report(leak, []);
    console.log(`${played} connections in ${Math.round(elapsed())} s; at the end ${await subject.state()}`);
    return found;
  } finally {
    await subject.stop();
  }
}

/** Runs scripts, some of them concurrently. @returns the scripts without their expected responses */
async function playAll(subject: Watched, batch: readonly Script[]): Promise<{ script: Script; why: string }[]> {
  const unanswered: { script: Script; why: string }[] = [];
  const queue = [...batch];
  const player = async () => {
    for (let script = queue.shift(); script; script = queue.shift()) {
      const why = await play(subject.server.url, script);
      if (why !== undefined && script.answers !== undefined) unanswered.push({ script, why });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, player));
  return unanswered;
}

/** Bisects a batch as long as one half makes the server fail. @returns the rest */
async function suspectsOf(
  start: Start,
  batch: readonly Script[],
  isEnding: Plan["isEnding"],
): Promise<readonly Script[]> {
  let suspects = batch;
  while (suspects.length > 1 && !isEnding()) {
    const middle = suspects.length >> 1;
    const halves = [suspects.slice(0, middle), suspects.slice(middle)];
    const failing = await firstFailing(start, halves);
    if (!failing) break;
    suspects = failing;
  }
  return suspects;
}

async function firstFailing(
  start: Start,
  halves: readonly (readonly Script[])[],
): Promise<readonly Script[] | undefined> {
  for (const half of halves) {
    const subject = await start();
    try {
      for (let i = 0; i < TRIES; i++) {
        await playAll(subject, half);
        if ((await subject.fault()) !== undefined) return half;
      }
    } finally {
      await subject.stop();
    }
  }
  return undefined;
}

/** The first script of a batch after which the server keeps a connection open; all scripts if none does. */
async function leakersOf(
  start: Start,
  batch: readonly Script[],
  isEnding: Plan["isEnding"],
): Promise<readonly Script[]> {
  const subject = await start();
  try {
    for (const script of batch) {
      const before = subject.descriptors();
      // Many copies at once, so a single connection that closes slowly is no finding.
      await Promise.all(Array.from({ length: AT_ONCE }, () => play(subject.server.url, script)));
      if (isEnding() || !(await subject.isBackTo(before + AT_ONCE / 2))) return [script];
    }
    return batch;
  } finally {
    await subject.stop();
  }
}

/** Replays the scripts of a file. @returns the number of findings */
export async function replay(fuzzed: Fuzzed, file: string, known: RegExp | undefined): Promise<number> {
  const scripts = parseScripts(readFileSync(file, "utf8"));
  const subject = await Watched.of(await fuzzed.start(), known);
  try {
    for (let i = 0; i < TRIES; i++) {
      const [unanswered] = await playAll(subject, scripts);
      const fault = (await subject.fault()) ?? unanswered?.why;
      if (fault === undefined) continue;
      console.log(`FINDING: ${fault}\n${scripts.slice(0, 3).map(describeScript).join("\n")}`);
      return 1;
    }
    return 0;
  } finally {
    await subject.stop();
  }
}
