// Builds the service and a benchmark of `bench/`, and runs it: `npm run bench -- [growth|introspect|overload] [options]`.
import { fileURLToPath } from "node:url";
import { bundleBench, bundleService } from "./bundle.js";

/** What each subcommand builds, its own file first. Without one, calls are measured. */
const BENCHMARKS = {
  calls: ["main.ts", "create-load.ts", "servers/*.ts"],
  growth: ["growth/main.ts"],
  introspect: ["introspect/main.ts"],
  overload: ["overload/main.ts"],
};

const [given = "", ...rest] = process.argv.slice(2);
const isNamed = Object.hasOwn(BENCHMARKS, given);
const [first = "", ...others] = BENCHMARKS[/** @type {keyof typeof BENCHMARKS} */ (isNamed ? given : "calls")];

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
await bundleService("dist");
await bundleBench([first, ...others].map((file) => `bench/${file}`));
const { main } = await import(`../dist-bench/${first.replace(".ts", ".js")}`);
await main(isNamed ? rest : process.argv.slice(2), bundleService);
