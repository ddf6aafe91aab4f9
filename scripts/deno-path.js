// Prints the path of the Deno executable in the npm package `deno`, because the script of this package on the PATH may
// forward no signals. Without the package, as after `npm ci --omit=dev`, prints the `deno` on the PATH.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
let path = "deno";
try {
  path = require("deno/install_api.cjs").runInstall();
} catch (error) {
  if (error.code !== "MODULE_NOT_FOUND") throw error;
}
process.stdout.write(path);
