// Builds the service and what overloads it, and runs it.
import { fileURLToPath } from "node:url";
import { bundleBench, bundleService } from "./bundle.js";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
await bundleService("dist");
await bundleBench(["bench/overload/main.ts"]);
const { main } = await import("../dist-bench/overload/main.js");
await main(process.argv.slice(2));
