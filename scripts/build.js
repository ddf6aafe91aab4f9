// Bundles the service into dist/, which runs without node_modules: node dist/main.js.
import { bundleService } from "./bundle.js";

await bundleService("dist");
