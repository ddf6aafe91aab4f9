// Prints the path of the Deno executable. The npm package `deno` may put a script on the PATH that forwards no signals.
// Without that package, as after `npm ci --omit=dev`, it prints the `deno` of the PATH.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
let path = "deno";
try {
  path = require("deno/install_api.cjs").runInstall();
} catch (error) {
  if (error.code !== "MODULE_NOT_FOUND") throw error;
}
process.stdout.write(path);
