// Checks the layers of the architecture. The rule of a folder lists the paths that its files may import. `npm run
// check` runs this script.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Each rule has a folder and a list of paths. The files of the folder may import these paths and each other. A path is
 * a folder, a file or an npm package. `FOLDER/*` means the files in a folder, but not the files in its subfolders. If
 * several rules match a file, the rule with the longest folder applies. If no rule matches a file, the file may import
 * any path. These rules do not apply to tests.
 */
const RULES = [
  ["src/domain", "ipaddr.js"],
  ["src/config", "src/domain", "src/store/encryption.ts", "src/store/connection/url.ts", "fastest-levenshtein"],
  [
    "src/observability",
    "src/domain",
    "@bufbuild/protobuf",
    "@connectrpc/connect",
    "@opentelemetry",
    "pino",
    "prom-client",
  ],
  ["src/auth", "src/domain"],
  ["src/sessions", "src/domain", "jose"],
  ["src/store", "src/domain", "src/store/connection", "src/store/scripts", "ioredis"],
  ["src/store/connection", "src/domain", "src/store/scripts", "ioredis", "ioredis-mock", "crc", "fengari"],
  ["src/store/groups", "src/domain", "src/store/*", "src/store/connection"],
  ["src/store/api-tokens", "src/domain", "src/store/*", "src/store/connection", "ioredis"],
  [
    "src/store/secret-keys",
    ...["src/domain", "src/store/*", "src/store/connection", "src/store/groups", "src/store/webhooks"],
  ],
  ["src/store/webhooks", "src/domain", "src/store/*", "src/store/groups"],
  ["src/webhooks", "src/domain"],
  [
    "src/rpc",
    ...["src/domain", "src/auth", "src/sessions", "src/observability", "gen", "@user-group-service/transport"],
    ...["@bufbuild/protobuf", "@bufbuild/protovalidate", "@connectrpc/connect"],
  ],
  [
    "src/rest",
    ...["src/domain", "src/sessions", "src/rpc", "gen", "@user-group-service/transport"],
    ...["@bufbuild/protobuf", "@connectrpc/connect"],
  ],
  ["src/server", "src", "package.json", "@user-group-service/transport", "@bufbuild/protobuf"],
  ["packages/transport/src", "@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-node"],
  ["packages/transport/src/codec", "@bufbuild/protobuf", "@connectrpc/connect"],
  [
    "packages/transport/src/protocol",
    ...["packages/transport/src/codec", "packages/transport/src/http-types.ts", "packages/transport/src/limits.ts"],
    ...["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-node"],
  ],
  [
    "packages/client/src",
    ...[
      "gen",
      "src/sessions/rules.ts",
      "@bufbuild/protobuf",
      "@connectrpc/connect",
      "@connectrpc/connect-node",
      "jose",
    ],
  ],
  // This file may import nothing, because web pages load it directly, without a bundler.
  ["packages/client/src/browser.ts"],
  ["packages/operator/src", "gen", "@bufbuild/protobuf"],
  [
    "packages/cli/src",
    ...["gen", "package.json", "packages/operator/src", "@user-group-service/client", "@bufbuild/protobuf"],
    ...["@connectrpc/connect", "@connectrpc/connect-node", "commander", "csv-parse", "csv-stringify"],
    ...["fast-string-truncated-width"],
  ],
  [
    "packages/console/src",
    ...[
      "gen",
      "release.json",
      "src/domain/events.ts",
      "packages/operator/src",
      "packages/client/src",
      "@bufbuild/protobuf",
    ],
    ...["@connectrpc/connect", "@connectrpc/connect-web", "@preact/signals", "lucide-preact", "preact", "uplot"],
  ],
  ["packages/testing/src", "vitest"],
  ["scripts/openapi", "package.json", "src/domain/events.ts", "@bufbuild", "esbuild"],
];

/**
 * The rule of the transport's tests. The transport is a library for any service, so its tests must not use this
 * service.
 */
const TRANSPORT_TESTS = [
  "packages/transport",
  ...["@user-group-service/testing", "@bufbuild", "@connectrpc", "esbuild", "fast-check", "vitest"],
];

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const IMPORT = /^(?:import|export)\b(?:[^"=;]*\bfrom)? "([^"\n]+)"|\bimport\("([^"\n]+)"\)/gm;

const files = ["src", "packages", "scripts"].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
);
const sources = files.filter((file) => /\.(?:js|tsx?)$/.test(file) && !/\/(?:node_modules|gen|dist)\//.test(file));
const faults = sources.flatMap((file) => {
  const rule = ruleOf(file);
  if (!rule) return [];
  const imports = [...readFileSync(join(ROOT, file), "utf8").matchAll(IMPORT)].map(([, one, other]) => one ?? other);
  return imports
    .map((path) => (path.startsWith(".") ? normalize(join(dirname(file), path)) : path))
    .filter((target) => !target.startsWith("node:") && !rule.some((allowed) => isIn(target, allowed)))
    .map((target) => `${file} may not import ${target}: scripts/check-imports.js lists what ${rule[0]} may import`);
});
if (faults.length > 0) {
  console.error(faults.join("\n"));
  process.exitCode = 1;
}

function ruleOf(file) {
  if (/\.test\.ts$|^packages\/[^/]+\/test\//.test(file))
    return isIn(file, "packages/transport") ? TRANSPORT_TESTS : undefined;
  return RULES.filter(([folder]) => isIn(file, folder)).sort(([a], [b]) => b.length - a.length)[0];
}

/** @param path a folder, a file, a package, or `FOLDER/*` */
function isIn(target, path) {
  if (path.endsWith("/*")) return dirname(target) === path.slice(0, -2);
  return target === path || target.startsWith(`${path}/`);
}
