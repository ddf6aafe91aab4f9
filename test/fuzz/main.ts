import { parseArgs } from "node:util";
import { PLACES } from "@user-group-service/testing/attacks/place";
import { makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { onPath } from "@user-group-service/testing/on-path";
import { startRedis } from "../support/redis.ts";
import { fuzz } from "./fuzz.ts";
import { corpus, startFuzzed } from "./subject.ts";

const USAGE = `Usage: npm run fuzz -- [options]
  --seconds N     duration (default 60)
  --seed S        number that determines every sent byte (default: the time)
  --runtime NAME  node or deno (default node)
  --tls           use TLS
  --batch N       replays only this batch of the seed`;

const options = {
  seconds: { type: "string", default: "60" },
  seed: { type: "string", default: String(Date.now() % 1_000_000) },
  runtime: { type: "string", default: "node" },
  tls: { type: "boolean", default: false },
  batch: { type: "string" },
} as const;

/** Whether a signal has requested the end of the run. */
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
  const batch = values.batch === undefined ? undefined : Number(values.batch);
  const [seconds, seed] = [Number(values.seconds), Number(values.seed)];
  const place = PLACES.find(({ runtime, tls }) => runtime === values.runtime && tls === values.tls);
  if (!place || !(seconds > 0) || !Number.isInteger(seed) || !((batch ?? 1) > 0)) throw new Error(USAGE);
  const certificates = makeCertificates();
  const redis = onPath("redis-server") === undefined ? undefined : await startRedis();
  try {
    console.log(`fuzzing the service, ${place.title}, with seed ${seed} for ${seconds} s`);
    const server = await startFuzzed(place, certificates, redis?.url);
    const isFound = await fuzz(server, { corpus: corpus(), seconds, seed, batch, isEnding: () => isEnding });
    if (isFound) process.exitCode = 1;
    else if (!isEnding) console.log("nothing was found");
  } finally {
    await redis?.stop();
    removeCertificates(certificates);
  }
}
