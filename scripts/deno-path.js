// Prints the path of the Deno executable in the npm package `deno`. Do not use the script `deno` that the package puts
// on the PATH, because that script does not always forward signals to Deno. If the package is not installed, for
// example after `npm ci --omit=dev`, this program prints `deno`.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
let path = "deno";
try {
  path = require("deno/install_api.cjs").runInstall();
} catch (error) {
  if (error.code !== "MODULE_NOT_FOUND") throw error;
}
process.stdout.write(path);
