import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { licensesOf } from "./licenses.js";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * Bundles the service: one file needs no node_modules, and starts more than twice as fast as some four hundred. Beside it
 * goes `LICENSES.txt`.
 *
 * @param {string} outdir what else is in it is removed
 * @param {import("esbuild").Plugin[]} [plugins]
 */
export async function bundleService(outdir, plugins = []) {
  const { outputFiles } = await build({
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
    write: false,
  });
  const maps = outputFiles.filter(({ path }) => path.endsWith(".map"));
  const licenses = Buffer.from(await licensesOf(root, maps));
  await replaceFiles(`${root}/${outdir}`, [
    ...outputFiles,
    { path: `${root}/${outdir}/LICENSES.txt`, contents: licenses },
  ]);
}

/**
 * Bundles a benchmark. What is measured beside the service, and what measures it, run as they are installed.
 *
 * @param {string[]} entryPoints files of `bench/`; each goes to the same place below `dist-bench/`
 */
export async function bundleBench(entryPoints) {
  await build({
    absWorkingDir: root,
    entryPoints,
    outdir: "dist-bench",
    outbase: "bench",
    bundle: true,
    packages: "external",
    platform: "node",
    target: "node20.19",
    format: "esm",
    logLevel: "warning",
  });
}

/**
 * Writes only what has changed, and each file at once: a service that runs from there may start workers meanwhile.
 *
 * @param {string} folder
 * @param {readonly { path: string, contents: Uint8Array }[]} files
 */
async function replaceFiles(folder, files) {
  const names = new Set(files.map(({ path }) => basename(path)));
  await mkdir(folder, { recursive: true });
  for (const { path, contents } of files) {
    const present = await readFile(path).catch(() => undefined);
    if (present?.equals(contents)) continue;
    await writeFile(`${path}.${process.pid}`, contents);
    await rename(`${path}.${process.pid}`, path);
  }
  for (const name of await readdir(folder)) {
    // Another build may be about to rename what ends in a number.
    if (!names.has(name) && !/\.\d+$/.test(name)) await rm(`${folder}/${name}`, { recursive: true, force: true });
  }
}
