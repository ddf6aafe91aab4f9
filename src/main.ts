#!/usr/bin/env node
import "./server/runtime.ts";
import { loadConfig } from "./config/config.ts";
import { endProcess, stopRequested } from "./server/lifecycle.ts";
import { run, supervise } from "./server/run.ts";
import { answerCommandLine, reportStartFailure } from "./server/start-messages.ts";
import { worker } from "./server/worker.ts";

if (worker || !answerCommandLine(process.argv.slice(2))) {
  const stopped = stopRequested(worker !== undefined);
  try {
    const service = await Promise.race([start(), stopped]);
    if (service === undefined && !worker) console.error("stopped before the service was ready");
    await stopped;
    await service?.close();
  } catch (error) {
    reportStartFailure(error);
  }
  // If an open handle keeps the process alive, exit after this time.
  setTimeout(endProcess, 500).unref();
}

/**
 * Starts the service. If `WORKERS` is above 1 and this process is not a worker, starts the supervisor of the worker
 * processes instead.
 */
async function start(): Promise<{ close(): Promise<void> }> {
  const config = await loadConfig(process.env);
  return !worker && config.workers > 1 ? supervise(config) : run(config);
}
