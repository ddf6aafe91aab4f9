import { build } from "esbuild";

export async function bundleForBrowser(entry: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    platform: "browser",
    target: "es2022",
    format: "esm",
    logLevel: "warning",
  });
  const [file] = outputFiles;
  if (!file) throw new Error(`no output for ${entry}`);
  return file.text;
}
