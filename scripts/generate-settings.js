// Writes the README's table of settings, and the variables that Deno may read, from the table in
// src/config/settings.ts. Node 20 does not run TypeScript, so this script bundles that file first.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const outfile = `${root}/node_modules/.cache/settings.js`;

await build({
  absWorkingDir: root,
  entryPoints: ["src/config/settings.ts"],
  outfile,
  bundle: true,
  platform: "node",
  target: "node20.19",
  format: "esm",
  packages: "external",
  logLevel: "warning",
});
/** @type {import("../src/config/settings.ts")} */
const { SETTINGS } = await import(outfile);

const rows = Object.entries(SETTINGS).map(([name, [, , description, byDefault = ""]]) => {
  return `| \`${name}\` |${byDefault && ` \`${byDefault}\``} | ${description} |\n`;
});
await rewrite("README.md", /(?<=^\| variable \| default \| \|\n\|---\|---\|---\|\n)(?:\|.*\n)+/m, rows.join(""));

const names = Object.keys(SETTINGS).map((name) => `          "${name}"`);
await rewrite("deno.json", /(?<="env": \{\s*"allow": \[\n)[^\]]*?(?=\n *\])/, names.join(",\n"));

/**
 * Replaces a section of a file.
 *
 * @param {string} name
 * @param {RegExp} place
 * @param {string} text
 */
async function rewrite(name, place, text) {
  const path = `${root}/${name}`;
  const before = await readFile(path, "utf8");
  if (!place.test(before)) throw new Error(`${name} has no section for the settings: ${place}`);
  const after = before.replace(place, () => text);
  if (after !== before) await writeFile(path, after);
}
