// Builds what measures how the store grows, and runs it.
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
await build({
  entryPoints: ["bench/growth/main.ts"],
  outfile: "dist-bench/growth/main.js",
  bundle: true,
  packages: "external",
  platform: "node",
  target: "node20.19",
  format: "esm",
  logLevel: "warning",
});
const { main } = await import("../dist-bench/growth/main.js");
await main(process.argv.slice(2));
