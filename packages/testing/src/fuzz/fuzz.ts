import { readFileSync, writeFileSync } from "node:fs";
import type { SubjectServer } from "../attacks/subject.ts";
import { cases } from "./cases.ts";
import { type Ask, exchangesOf } from "./exchange.ts";
import { play } from "./play.ts";
import { describeScript, formatScripts, parseScripts, type Script } from "./script.ts";
import { Watched } from "./watched.ts";

/** Connections at once, and connections between two looks at the server. */
const AT_ONCE = 24;
const PER_BATCH = 240;
/** Share of the time that warms the server up, and seconds between looks at its memory. */
const WARM_UP_SHARE = 0.2;
const ROUND_SECONDS = 30;
/** How often suspects are played by themselves: a fault may not show each time. */
const TRIES = 3;

/** What is fuzzed. */
export interface Fuzzed {
  readonly name: string;
  /** The requests that are split and mutated; the first three have the token of a caller. */
  readonly corpus: readonly Ask[];
  start(): Promise<SubjectServer>;
}

/** How something is fuzzed. */
export interface Plan {
  readonly seconds: number;
  readonly seed: number;
  /** How many findings end it. */
  readonly most: number;
  /** The file of the first finding; further ones have a number behind its name. */
  readonly out: string;
  /** Lines of the log that are no findings. */
  readonly known: RegExp | undefined;
  /** Whether it is to end early. */
  readonly isEnding: () => boolean;
}

type Start = () => Promise<Watched>;

/** Plays scripts until the time is over; gives the number of findings. */
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
    console.log(
      `all of it is in ${file}; play it again with: npm run fuzz -- --subject ${fuzzed.name} --replay ${file}\n`,
    );
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
    console.log(`${played} connections in ${Math.round(elapsed())} s; in the end ${await subject.state()}`);
    return found;
  } finally {
    await subject.stop();
  }
}

/** Plays scripts, some at once; gives those whose answers did not come. */
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

/** What is left of a batch that is halved for as long as one half makes the server fail. */
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

/** The first script of a batch after which the server keeps a connection open; all of them where none does. */
async function leakersOf(
  start: Start,
  batch: readonly Script[],
  isEnding: Plan["isEnding"],
): Promise<readonly Script[]> {
  const subject = await start();
  try {
    for (const script of batch) {
      const before = subject.descriptors();
      // Many at once, so that one connection that is slow to close is no finding.
      await Promise.all(Array.from({ length: AT_ONCE }, () => play(subject.server.url, script)));
      if (isEnding() || !(await subject.isBackTo(before + AT_ONCE / 2))) return [script];
    }
    return batch;
  } finally {
    await subject.stop();
  }
}

/** Plays the scripts of a file; gives the number of findings. */
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
