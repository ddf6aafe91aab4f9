import cluster from "node:cluster";
import { once } from "node:events";
import { ConfigError, loadConfig } from "./config/config.ts";
import { StoreUnavailable } from "./domain/errors.ts";
import { run, supervise } from "./run.ts";

try {
  const config = loadConfig(process.env);
  const service = await (cluster.isPrimary && config.workers > 1 ? supervise(config) : run(config));
  await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]);
  await service.close();
} catch (error) {
  process.exitCode = 1;
  console.error(explain(error));
}
// Should anything still keep the process, it ends all the same.
setTimeout(() => process.exit(), 1000).unref();

function explain(error: unknown): string {
  if (error instanceof ConfigError) return error.message;
  if (error instanceof StoreUnavailable)
    return `cannot use Redis: ${(error.cause as Error)?.message}; check REDIS_URL and that Redis runs`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
