// Bundles the service into dist/main.js.
import { bundleService } from "./bundle.js";

await bundleService("dist");
