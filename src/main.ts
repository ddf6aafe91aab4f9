import "./runtime.ts";
import { loadConfig } from "./config/config.ts";
import { run, supervise } from "./run.ts";
import { answerTo, reportStartFailure } from "./start-messages.ts";
import { worker } from "./worker.ts";

const answer = worker ? undefined : answerTo(process.argv.slice(2));
if (answer) {
  process.exitCode = answer.exitCode;
  (answer.exitCode === 0 ? console.log : console.error)(answer.text);
} else await serve();

async function serve(): Promise<void> {
  // The listeners stay for the life of the process: under npm, one Ctrl-C arrives as two signals, because both the
  // terminal and npm send it.
  const stopped = new Promise<undefined>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => resolve(undefined));
    // A worker whose supervisor has ended without it ends, too.
    if (worker) process.on("disconnect", () => resolve(undefined));
  });
  try {
    const config = loadConfig(process.env);
    const starting = !worker && config.workers > 1 ? supervise(config) : run(config);
    const service = await Promise.race([starting, stopped]);
    // Only the primary process reports this.
    if (service === undefined && !worker) console.error("stopped before the service was ready");
    await stopped;
    await service?.close();
  } catch (error) {
    reportStartFailure(error);
  }
  // Exits even if something still keeps the process alive.
  setTimeout(() => process.exit(), 1000).unref();
}
