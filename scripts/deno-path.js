// Prints the path of the Deno executable in the npm package `deno`. The package also puts a wrapper script named `deno`
// on the PATH, but the wrapper does not always forward signals. Without the package, for example after `npm ci
// --omit=dev`, prints `deno`.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
let path = "deno";
try {
  path = require("deno/install_api.cjs").runInstall();
} catch (error) {
  if (error.code !== "MODULE_NOT_FOUND") throw error;
}
process.stdout.write(path);
