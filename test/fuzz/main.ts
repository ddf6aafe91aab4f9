import { parseArgs } from "node:util";
import { PLACES } from "@user-group-service/testing/attacks/place";
import { makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { fuzz, type Plan, replay } from "@user-group-service/testing/fuzz/fuzz";
import { fuzzedPort } from "../../packages/transport/test/fuzz/subject.ts";
import { findRedisServer, startRedis } from "../support/redis.ts";
import { fuzzedService } from "./subject.ts";

const USAGE = `Usage: npm run fuzz -- [options]
  --seconds N     how long, shared among what is fuzzed (default 60)
  --subject NAME  port: the transport's, with a service of its own; service: this one (default both)
  --seed S        a number that decides every byte that is sent (default: the time)
  --runtime NAME  node or deno (default node)
  --tls           over TLS
  --findings N    ends after so many findings (default 1)
  --out FILE      where a finding goes (default fuzz-finding.json, then fuzz-finding.json.1 and so on)
  --known REGEX   lines of the log that are no findings
  --replay FILE   plays what was found once more, and nothing else`;

const options = {
  seconds: { type: "string", default: "60" },
  subject: { type: "string" },
  seed: { type: "string", default: String(Date.now() % 1_000_000) },
  runtime: { type: "string", default: "node" },
  tls: { type: "boolean", default: false },
  findings: { type: "string", default: "1" },
  out: { type: "string", default: "fuzz-finding.json" },
  known: { type: "string" },
  replay: { type: "string" },
} as const;

/** Whether a signal has told the fuzzer to stop. It stops the servers first. */
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
  const redis = findRedisServer() === undefined ? undefined : await startRedis();
  const all = [fuzzedPort(place, certificates), fuzzedService(place, certificates, redis?.url)];
  const chosen = all.filter(({ name }) => name === (values.subject ?? name));
  const share = seconds / chosen.length;
  const plan: Plan = { seconds: share, seed, most, out: values.out, known, isEnding: () => isEnding };
  try {
    if (chosen.length === 0) throw new Error(USAGE);
    for (const fuzzed of chosen) {
      console.log(`fuzzing the ${fuzzed.name}, ${place.title}, with seed ${seed} for ${share} s`);
      const { replay: file } = values;
      const found = file === undefined ? await fuzz(fuzzed, plan) : await replay(fuzzed, file, known);
      if (found > 0) process.exitCode = 1;
      // The files of the next finding would hold these findings.
      if (found > 0 || isEnding) return;
    }
    console.log("nothing was found");
  } finally {
    await redis?.stop();
    removeCertificates(certificates);
  }
}
