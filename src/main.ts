import { once } from "node:events";
import { loadConfig } from "./config/config.ts";
import { run } from "./run.ts";
import { explainStartFailure } from "./start-failure.ts";

try {
  const service = await run(loadConfig(process.env));
  await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]);
  await service.close();
} catch (error) {
  process.exitCode = 1;
  console.error(explainStartFailure(error));
}
// Should anything still keep the process, it ends all the same.
setTimeout(() => process.exit(), 1000).unref();
