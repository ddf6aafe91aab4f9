// Builds the service and the benchmark, and runs it.
import { fileURLToPath } from "node:url";
import { bundleBench, bundleService } from "./bundle.js";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
await bundleService("dist");
await bundleBench(["bench/main.ts", "bench/create-load.ts", "bench/servers/*.ts"]);
const { main } = await import("../dist-bench/main.js");
await main(process.argv.slice(2), bundleService);
