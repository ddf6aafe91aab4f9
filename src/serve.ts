import { once } from "node:events";
import { type Config, ConfigError, loadConfig } from "./config/config.ts";
import { loadAllRules } from "./rpc/validation.ts";
import { open } from "./run.ts";
import { explainStartFailure } from "./start-failure.ts";
import { serveFetch } from "./transport/index.ts";

/*
 * Entry for `deno serve --parallel`, which listens on the address in its flags and runs this module once on each of its
 * threads. It serves Connect, gRPC-Web and REST, but no gRPC and no TLS.
 */

/** Refuses settings that would silently have no effect. @throws ConfigError */
function requireServable({ redisUrl, tls, metricsPort }: Config): void {
  const faults: string[] = [];
  if (redisUrl === undefined)
    faults.push("REDIS_URL is missing: the threads of deno serve share no memory, so there is no embedded store");
  if (tls) faults.push("TLS_CERT_FILE has no effect: deno serve has no TLS; use main.ts, or a proxy in front");
  if (metricsPort !== undefined)
    faults.push("METRICS_PORT has no effect: deno serve has one port; use main.ts, or keep /metrics in with a proxy");
  if (faults.length > 0) throw new ConfigError(faults);
}

async function start() {
  const config = loadConfig(process.env);
  requireServable(config);
  const { app, log, lifecycle, endStreams, close } = await open(config);
  const { fetch, drain } = serveFetch(app.service);
  lifecycle.onClose("requests under way", drain);
  lifecycle.onClose("streams", endStreams);
  // On a signal, deno serve itself stops listening and finishes the requests in flight.
  Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]).then(async () => {
    await close();
    // Exits even if something still keeps the process alive.
    setTimeout(() => process.exit(), 1000).unref();
  });
  log.logger.info("ready");
  void loadAllRules();
  return fetch;
}

const fetch = await start().catch((error: unknown) => {
  throw new Error(explainStartFailure(error));
});

export default { fetch };
