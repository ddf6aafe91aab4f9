import cluster from "node:cluster";
import { loadConfig } from "./config/config.ts";
import { run, supervise } from "./run.ts";
import { reportStartFailure } from "./start-failure.ts";
import "./heap.ts";

// Heard from now on and for good: one Ctrl-C is two signals where npm passes on what the terminal sends to all.
const stopped = new Promise<undefined>((resolve) => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => resolve(undefined));
});
try {
  const config = loadConfig(process.env);
  const starting = cluster.isPrimary && config.workers > 1 ? supervise(config) : run(config);
  const service = await Promise.race([starting, stopped]);
  // A worker that is ended with the others has nothing to say.
  if (service === undefined && cluster.isPrimary) console.error("ended before it served");
  await stopped;
  await service?.close();
} catch (error) {
  reportStartFailure(error);
}
// Should anything still keep the process, it ends all the same.
setTimeout(() => process.exit(), 1000).unref();
