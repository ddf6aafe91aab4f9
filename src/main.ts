import "./runtime.ts";
import { loadConfig } from "./config/config.ts";
import { stopRequested } from "./lifecycle.ts";
import { run, supervise } from "./run.ts";
import { answerCommandLine, reportStartFailure } from "./start-messages.ts";
import { worker } from "./worker.ts";

if (worker || !answerCommandLine(process.argv.slice(2))) {
  const stopped = stopRequested(worker !== undefined);
  try {
    const config = loadConfig(process.env);
    const starting = !worker && config.workers > 1 ? supervise(config) : run(config);
    const service = await Promise.race([starting, stopped]);
    if (service === undefined && !worker) console.error("stopped before the service was ready");
    await stopped;
    await service?.close();
  } catch (error) {
    reportStartFailure(error);
  }
  // Exits even if something still keeps the process alive.
  setTimeout(() => process.exit(), 1000).unref();
}
