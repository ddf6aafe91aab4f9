import cluster from "node:cluster";
import { once } from "node:events";
import { loadConfig } from "./config/config.ts";
import { run, supervise } from "./run.ts";
import { explainStartFailure } from "./start-failure.ts";
import "./heap.ts";

try {
  const config = loadConfig(process.env);
  const service = await (cluster.isPrimary && config.workers > 1 ? supervise(config) : run(config));
  await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]);
  await service.close();
} catch (error) {
  process.exitCode = 1;
  console.error(explainStartFailure(error));
}
// Should anything still keep the process, it ends all the same.
setTimeout(() => process.exit(), 1000).unref();
