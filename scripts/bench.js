// Builds the service and the benchmark, and runs it.
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundleService } from "./bundle.js";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
await bundleService("dist");
await build({
  entryPoints: ["bench/main.ts", "bench/create-load.ts", "bench/servers/*.ts"],
  outdir: "dist-bench",
  outbase: "bench",
  bundle: true,
  // The peers are measured as they are installed.
  packages: "external",
  platform: "node",
  target: "node20.19",
  format: "esm",
  logLevel: "warning",
});
const { main } = await import("../dist-bench/main.js");
await main(process.argv.slice(2), bundleService);
