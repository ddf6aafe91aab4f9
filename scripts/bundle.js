import { rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * Bundles the service: one file starts more than twice as fast as some four hundred.
 *
 * @param {string} outdir is emptied first
 * @param {import("esbuild").Plugin[]} [plugins]
 */
export async function bundleService(outdir, plugins = []) {
  await rm(`${root}/${outdir}`, { recursive: true, force: true });
  await build({
    absWorkingDir: root,
    entryPoints: ["src/main.ts"],
    outdir,
    bundle: true,
    platform: "node",
    target: "node20.19",
    format: "esm",
    // What is imported when it is needed, such as the embedded store, stays in files of its own.
    splitting: true,
    sourcemap: true,
    // For the CommonJS packages in the bundle.
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module';\nconst require = __createRequire(import.meta.url);",
    },
    plugins,
    logLevel: "warning",
  });
}
