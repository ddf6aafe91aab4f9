// A buf plugin that writes gen/openapi.json. Node 20 does not run TypeScript, so this script bundles the plugin first.
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
const outfile = `${root}/node_modules/.cache/openapi/plugin.js`;

await build({
  absWorkingDir: root,
  entryPoints: ["scripts/openapi/plugin.ts"],
  outfile,
  bundle: true,
  platform: "node",
  target: "node20.19",
  format: "esm",
  logLevel: "warning",
  plugins: [
    {
      // Replaces the TypeScript compiler with an empty module, because loading the compiler takes a second. protoplugin
      // imports the compiler, but needs it only to write JavaScript or declaration files.
      name: "without-typescript",
      setup({ onResolve, onLoad }) {
        onResolve({ filter: /^(?:typescript|@typescript\/vfs)$/ }, ({ path }) => ({ path, namespace: "left-out" }));
        onLoad({ filter: /./, namespace: "left-out" }, () => ({ contents: "module.exports = {};" }));
      },
    },
  ],
});
await import(outfile);
