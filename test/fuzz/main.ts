import { parseArgs } from "node:util";
import { PLACES } from "@user-group-service/testing/attacks/place";
import { makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { fuzz, type Plan, replay } from "@user-group-service/testing/fuzz/fuzz";
import { fuzzedPort } from "../../packages/transport/test/fuzz/subject.ts";
import { findRedisServer, startRedis } from "../support/redis.ts";
import { fuzzedService } from "./subject.ts";

const USAGE = `Usage: npm run fuzz -- [options]
  --seconds N     total duration of both subjects (default 60)
  --subject NAME  port: the transport with a test service; service: the User Group Service (default both)
  --seed S        number that determines every sent byte (default: the time)
  --runtime NAME  node or deno (default node)
  --tls           over TLS
  --batch N       replays only this batch of the seed`;

const options = {
  seconds: { type: "string", default: "60" },
  subject: { type: "string" },
  seed: { type: "string", default: String(Date.now() % 1_000_000) },
  runtime: { type: "string", default: "node" },
  tls: { type: "boolean", default: false },
  batch: { type: "string" },
} as const;

/** Whether a signal has requested the end of the run. It stops the servers first. */
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
  const [seconds, seed, batch] = [Number(values.seconds), Number(values.seed), Number(values.batch ?? 1)];
  const place = PLACES.find(({ runtime, tls }) => runtime === values.runtime && tls === values.tls);
  if (!place || !(seconds > 0) || !Number.isInteger(seed) || !(batch > 0)) throw new Error(USAGE);
  const certificates = makeCertificates();
  const redis = findRedisServer() === undefined ? undefined : await startRedis();
  const all = [fuzzedPort(place, certificates), fuzzedService(place, certificates, redis?.url)];
  const chosen = all.filter(({ name }) => name === (values.subject ?? name));
  const share = seconds / chosen.length;
  const plan: Plan = { seconds: share, seed, isEnding: () => isEnding };
  try {
    if (chosen.length === 0) throw new Error(USAGE);
    for (const fuzzed of chosen) {
      console.log(`fuzzing the ${fuzzed.name}, ${place.title}, with seed ${seed} for ${share} s`);
      const isFound =
        values.batch === undefined
          ? await fuzz(fuzzed, plan)
          : await replay(fuzzed, { seed, batch, isEnding: plan.isEnding });
      if (isFound) process.exitCode = 1;
      if (isFound || isEnding) return;
    }
    console.log("nothing was found");
  } finally {
    await redis?.stop();
    removeCertificates(certificates);
  }
}
