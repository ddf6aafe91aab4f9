// Bundles the service into dist/. To run the bundle, use `node dist/main.js`. The bundle needs no node_modules.
import { bundleService } from "./bundle.js";

await bundleService("dist");
