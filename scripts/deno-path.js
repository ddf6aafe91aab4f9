// Writes the path of Deno itself: what the npm package `deno` puts on the PATH may be a script, which passes no
// signals on. Without the package, as after `npm ci --omit=dev`, it is the `deno` of the PATH.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
let path = "deno";
try {
  path = require("deno/install_api.cjs").runInstall();
} catch (error) {
  if (error.code !== "MODULE_NOT_FOUND") throw error;
}
process.stdout.write(path);
