// Builds what measures how the store grows, and runs it.
import { fileURLToPath } from "node:url";
import { bundleBench } from "./bundle.js";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
await bundleBench(["bench/growth/main.ts"]);
const { main } = await import("../dist-bench/growth/main.js");
await main(process.argv.slice(2));
