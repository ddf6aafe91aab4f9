import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { licensesOf } from "./licenses.js";

/** The folder with the script and the style sheet of the page `/docs/`. */
const SWAGGER_UI = "node_modules/swagger-ui-dist";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Defines `require` for the CommonJS packages in a bundle. */
const REQUIRE =
  "import { createRequire as __createRequire } from 'node:module';\nconst require = __createRequire(import.meta.url);";

const COMMON = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  target: "node20.19",
  format: "esm",
  logLevel: "warning",
  write: false,
  // Minify, so that Node parses the code in less time. Stack traces stay readable, because names are kept and lines are
  // short.
  minifySyntax: true,
  minifyWhitespace: true,
  lineLimit: 120,
};

/**
 * Bundles the service and the command line `ugs`. Also writes `LICENSES.txt` and `package.json`. The bundle needs no
 * node_modules. The service starts from the bundle in less than half of the time that it needs to start from 400 source
 * files.
 *
 * @param outdir the output folder. The function removes all other files in this folder
 */
export async function bundleService(outdir) {
  const { outputFiles } = await build({
    ...COMMON,
    entryPoints: ["src/main.ts"],
    outdir,
    // Write dynamically imported modules, such as the embedded store, to separate files. Node loads such a file only if
    // the service imports it.
    splitting: true,
    // Prefer ES modules, because esbuild removes unused code of ES modules.
    mainFields: ["module", "main"],
    // The service does not use the modules that match this pattern. Do not bundle them, because esbuild would write a
    // file for each module.
    external: ["./getMachineId-*"],
    sourcemap: true,
    banner: { js: REQUIRE },
  });
  const commandLine = await bundleCommandLine(outdir);
  const consolePage = await bundleConsole(outdir);
  const isMap = ({ path }) => path.endsWith(".map");
  const page = { folder: `${root}/${SWAGGER_UI}`, texts: ["swagger-ui-bundle.js.LICENSE.txt"] };
  const licenses = Buffer.from(
    await licensesOf(root, [...outputFiles, ...commandLine, ...consolePage].filter(isMap), [page]),
  );
  await replaceFiles(`${root}/${outdir}`, [
    ...outputFiles,
    { path: `${root}/${outdir}/package.json`, contents: Buffer.from(await manifest()) },
    ...[...commandLine, ...consolePage].filter((file) => !isMap(file)),
    { path: `${root}/${outdir}/LICENSES.txt`, contents: licenses },
    ...(await copies(outdir, [
      "gen/openapi.json",
      `${SWAGGER_UI}/swagger-ui.css`,
      `${SWAGGER_UI}/swagger-ui-bundle.js`,
    ])),
  ]);
}

/**
 * Returns the manifest with which `npm pack ./dist` packs the service and `ugs`. Node needs this manifest to load the
 * files as ES modules.
 */
async function manifest() {
  const { name, version, description, license, type, engines, bin } = JSON.parse(
    await readFile(`${root}/package.json`, "utf8"),
  );
  const programs = Object.fromEntries(Object.entries(bin).map(([program, path]) => [program, basename(path)]));
  // Omit the source maps, because the source maps are twice as large as all other files together.
  const files = ["*.js", "*.css", "openapi.json", "LICENSES.txt"];
  const fields = { name, version, description, license, type, engines, bin: programs, files };
  return `${JSON.stringify(fields, undefined, 2)}\n`;
}

/**
 * Reads the files at `paths`. Returns their contents with new paths in the output folder. The service reads each copy
 * when a client first requests the file (src/rest/pages/).
 */
function copies(outdir, paths) {
  return Promise.all(
    paths.map(async (path) => ({
      path: `${root}/${outdir}/${basename(path)}`,
      contents: await readFile(`${root}/${path}`),
    })),
  );
}

async function bundleCommandLine(outdir) {
  const { outputFiles } = await build({
    ...COMMON,
    entryPoints: { ugs: "packages/cli/src/main.ts" },
    outdir,
    // The output does not contain the source map, because only `licensesOf` reads it.
    sourcemap: "external",
    banner: { js: `#!/usr/bin/env node\n${REQUIRE}` },
  });
  return outputFiles.map(({ path, contents, text }) => ({ path, contents, text, mode: 0o755 }));
}

async function bundleConsole(outdir) {
  const { outputFiles } = await build({
    ...COMMON,
    entryPoints: ["main.tsx", "console.css"].map((name) => ({ in: `packages/console/src/${name}`, out: "console" })),
    outdir,
    platform: "browser",
    target: "es2022",
    format: "iife",
    jsx: "automatic",
    jsxImportSource: "preact",
    minify: true,
    // Only `licensesOf` reads the source map.
    sourcemap: "external",
  });
  return outputFiles;
}

/**
 * Bundles benchmarks. The bundles contain no npm packages, so the benchmarks load all packages from node_modules.
 *
 * @param entryPoints files of `bench/`. The output of `bench/FILE.ts` is `dist-bench/FILE.js`
 */
export async function bundleBench(entryPoints) {
  await build({
    ...COMMON,
    entryPoints,
    outdir: "dist-bench",
    outbase: "bench",
    packages: "external",
    write: true,
  });
}

/**
 * Writes those `files` whose content has changed, and removes all files of the folder that are not in `files`. A service
 * that runs from this folder can start workers at any time. So each file is replaced atomically: a worker reads the old
 * or the new content.
 */
async function replaceFiles(folder, files) {
  const names = new Set(files.map(({ path }) => basename(path)));
  await mkdir(folder, { recursive: true });
  for (const { path, contents, mode = 0o644 } of files) {
    const present = await readFile(path).catch(() => undefined);
    if (present?.equals(contents)) continue;
    await writeFile(`${path}.${process.pid}`, contents, { mode });
    await rename(`${path}.${process.pid}`, path);
  }
  for (const name of await readdir(folder)) {
    // Another build can run at the same time. Keep its temporary files, whose names end in a number.
    if (!names.has(name) && !/\.\d+$/.test(name)) await rm(`${folder}/${name}`, { recursive: true, force: true });
  }
}
