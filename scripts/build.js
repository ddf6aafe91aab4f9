// Bundles the service into dist/. The bundle runs without node_modules: node dist/main.js.
import { bundleService } from "./bundle.js";

await bundleService("dist");
