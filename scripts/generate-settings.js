// Writes the settings from the table in src/config/settings.ts into three files. README.md gets a table. deno.json gets
// the variables that Deno may read. The Helm chart gets the names that its `settings` may contain. Node 20 does not run
// TypeScript, so this script bundles src/config/settings.ts first.
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
const { SETTINGS } = await import(outfile);

const rows = Object.entries(SETTINGS).map(([name, [, , description, byDefault = ""]]) => {
  return `| \`${name}\` |${byDefault && ` \`${byDefault}\``} | ${description} |\n`;
});
await rewrite("README.md", /(?<=^\| variable \| default \| \|\n\|---\|---\|---\|\n)(?:\|.*\n)+/m, rows.join(""));

const names = Object.keys(SETTINGS).map((name) => `          "${name}"`);
await rewrite("deno.json", /(?<="env": \{\s*"allow": \[\n)[^\]]*?(?=\n *\])/, names.join(",\n"));

/**
 * Settings that are not allowed in `settings` of the chart's values. Some of these settings are credentials, which
 * belong in a Secret. The chart needs fixed values of the other settings, or sets these settings itself.
 */
const NOT_IN_VALUES = new Set([
  ...["HOST", "PORT", "METRICS_PORT", "SHUTDOWN_TIMEOUT", "SHUTDOWN_DELAY", "REDIS_URL", "MIN_REPLICAS_ACK"],
  ...["REDIS_PASSWORD_FILE", "REDIS_CA_FILE", "REDIS_SENTINEL_PASSWORD", "REDIS_SENTINEL_PASSWORD_FILE"],
  ...["TOKEN_KEYS", "TOKEN_KEYS_FILE", "ADMIN_TOKEN", "ADMIN_TOKEN_FILE", "API_TOKENS", "API_TOKENS_FILE"],
  ...["TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CLIENT_CA_FILE", "OTEL_EXPORTER_OTLP_HEADERS"],
]);
const inValues = [...Object.keys(SETTINGS), "NODE_EXTRA_CA_CERTS"].filter((name) => !NOT_IN_VALUES.has(name));
const lines = inValues.map((name) => `          "${name}"`);
await rewrite(
  "deploy/helm/values.schema.json",
  /(?<="propertyNames": \{\s*"enum": \[\n)[^\]]*?(?=\n *\])/,
  lines.join(",\n"),
);

/** Replaces a section of a file. */
async function rewrite(name, place, text) {
  const path = `${root}/${name}`;
  const before = await readFile(path, "utf8");
  if (!place.test(before))
    throw new Error(`cannot write the settings to ${name}: no text of the file matches ${place}`);
  const after = before.replace(place, () => text);
  if (after !== before) await writeFile(path, after);
}
