// Builds the service and what overloads it, and runs it.
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundleService } from "./bundle.js";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
await bundleService("dist");
await build({
  entryPoints: ["bench/overload/main.ts"],
  outfile: "dist-bench/overload/main.js",
  bundle: true,
  packages: "external",
  platform: "node",
  target: "node20.19",
  format: "esm",
  logLevel: "warning",
});
const { main } = await import("../dist-bench/overload/main.js");
await main(process.argv.slice(2));
