import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { PLACES } from "../attacks/support/place.ts";
import { findRedisServer, startRedis } from "../support/redis.ts";
import { cases } from "./cases.ts";
import { exchanges } from "./exchange.ts";
import { play } from "./play.ts";
import { describeScript, formatScripts, parseScripts, type Script } from "./script.ts";
import { API_TOKEN, Subject } from "./subject.ts";

const USAGE = `Usage: npm run fuzz -- [options]
  --seconds N     how long (default 60)
  --seed S        a number that decides every byte that is sent (default: the time)
  --runtime NAME  node or deno (default node)
  --tls           over TLS
  --findings N    ends after so many findings (default 1)
  --out FILE      where a finding goes (default fuzz-finding.json, then fuzz-finding.json.1 and so on)
  --known REGEX   lines of the log that are no findings
  --replay FILE   plays what was found once more, and nothing else`;

/** Connections at once, and before all is looked at. */
const AT_ONCE = 24;
const PER_BATCH = 240;
/** Share of the time that warms the server up, and seconds between looks at its memory. */
const WARM_UP_SHARE = 0.2;
const ROUND_SECONDS = 30;
/** A finding may need luck: how often each suspect is played alone. */
const TRIES = 3;

const options = {
  seconds: { type: "string", default: "60" },
  seed: { type: "string", default: String(Date.now() % 1_000_000) },
  runtime: { type: "string", default: "node" },
  tls: { type: "boolean", default: false },
  findings: { type: "string", default: "1" },
  out: { type: "string", default: "fuzz-finding.json" },
  known: { type: "string" },
  replay: { type: "string" },
} as const;

/** Whether somebody has asked for the end; the servers are stopped first. */
let isEnding = false;

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.once(signal, () => {
      isEnding = true;
    });
  }
  const { values } = parseArgs({ options });
  const [seconds, seed, most] = [Number(values.seconds), Number(values.seed), Number(values.findings)];
  const place = PLACES.find(({ runtime, tls }) => runtime === values.runtime && tls === values.tls);
  if (!place || !(seconds > 0) || !Number.isInteger(seed) || !(most > 0)) throw new Error(USAGE);
  const known = values.known === undefined ? undefined : new RegExp(values.known);
  const certificates = makeCertificates();
  // What is created goes there, and does not look like a leak.
  const redis = findRedisServer() === undefined ? undefined : await startRedis();
  const start = () => Subject.start(place, certificates, { redisUrl: redis?.url, known });
  try {
    console.log(`fuzzing ${place.title} with seed ${seed} for ${seconds} s`);
    const found =
      values.replay === undefined
        ? await fuzz(start, { seconds, seed, most, out: values.out })
        : await replay(start, values.replay);
    if (found > 0) process.exitCode = 1;
    else console.log("nothing was found");
  } finally {
    await redis?.stop();
    removeCertificates(certificates);
  }
}

interface Plan {
  readonly seconds: number;
  readonly seed: number;
  /** How many findings end it. */
  readonly most: number;
  readonly out: string;
}

/** Plays scripts until the time is over; gives the number of findings. */
async function fuzz(start: () => Promise<Subject>, { seconds, seed, most, out }: Plan): Promise<number> {
  const scripts = cases(seed, exchanges(API_TOKEN));
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
    console.log(`all of it is in ${file}; play it again with: npm run fuzz -- --replay ${file}\n`);
  };
  try {
    while (elapsed() < seconds && found < most && !isEnding) {
      const batch = Array.from({ length: PER_BATCH }, () => scripts.next().value);
      const unanswered = await playAll(subject, batch);
      played += batch.length;
      const fault = await subject.fault();
      if (fault !== undefined) {
        await subject.stop();
        report(fault, await suspectsOf(start, batch));
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
        if (leak !== undefined) report(leak, await leakersOf(start, batch));
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
async function playAll(subject: Subject, batch: readonly Script[]): Promise<{ script: Script; why: string }[]> {
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

/** The one script of a batch that fails the server alone; all of them where none does. */
async function suspectsOf(start: () => Promise<Subject>, batch: readonly Script[]): Promise<readonly Script[]> {
  let suspects = batch;
  // Halves, as long as one of them fails it.
  while (suspects.length > 1 && !isEnding) {
    const middle = suspects.length >> 1;
    const halves = [suspects.slice(0, middle), suspects.slice(middle)];
    const failing = await firstFailing(start, halves);
    if (!failing) break;
    suspects = failing;
  }
  return suspects;
}

async function firstFailing(
  start: () => Promise<Subject>,
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
async function leakersOf(start: () => Promise<Subject>, batch: readonly Script[]): Promise<readonly Script[]> {
  const subject = await start();
  try {
    for (const script of batch) {
      const before = subject.descriptors();
      // What the server keeps of all of them is no accident.
      await Promise.all(Array.from({ length: AT_ONCE }, () => play(subject.server.url, script)));
      if (isEnding || !(await subject.isBackTo(before + AT_ONCE / 2))) return [script];
    }
    return batch;
  } finally {
    await subject.stop();
  }
}

/** Plays the scripts of a file; gives the number of findings. */
async function replay(start: () => Promise<Subject>, file: string): Promise<number> {
  const scripts = parseScripts(readFileSync(file, "utf8"));
  const subject = await start();
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
