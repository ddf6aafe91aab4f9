// Builds the service and a benchmark of `bench/`, and runs the benchmark. `npm run bench -- --help` lists the
// benchmarks.
import { fileURLToPath } from "node:url";
import { bundleBench, bundleService } from "./bundle.js";

/** Maps each subcommand to the files of its benchmark. The first file is the main file. Default subcommand: `calls`. */
const BENCHMARKS = {
  calls: ["calls/main.ts", "calls/create-load.ts", "servers/*.ts"],
  growth: ["growth/main.ts"],
  overload: ["overload/main.ts", "overload/other-caller.ts"],
};

const args = process.argv.slice(2);
const [given = ""] = args;
const isNamed = Object.hasOwn(BENCHMARKS, given);
const [first = "", ...others] = BENCHMARKS[isNamed ? given : "calls"];

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
await bundleService("dist");
await bundleBench([first, ...others].map((file) => `bench/${file}`));
const { main } = await import(`../dist-bench/${first.replace(".ts", ".js")}`);
try {
  await main(isNamed ? args.slice(1) : args);
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 1;
}

/** Returns the messages of an error and its causes. */
function messageOf(error) {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`;
}
