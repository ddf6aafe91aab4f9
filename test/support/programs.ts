import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { ROOT } from "@user-group-service/testing/process";
import { build } from "esbuild";
import names from "../../release.json" with { type: "json" };
import { pythonPrograms } from "./python.ts";

const PYTHON = join(ROOT, "packages/client-python");
/** Programs in this folder can import the packages of the repository. */
const CACHE = join(ROOT, "node_modules/.cache");
const GO = join(ROOT, "packages/client-go");

export type Language = "curl" | "TypeScript" | "Python" | "Go";

/**
 * Runs a program. The program can import the client of this repository for its language.
 *
 * @returns the standard output of the program. Undefined if a tool that the language needs is missing
 * @throws if the program fails, or if a tool is missing and the environment variable CI is "true"
 */
export async function outputOf(language: Language, text: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  mkdirSync(CACHE, { recursive: true });
  const folder = mkdtempSync(join(CACHE, "program-"));
  const write = (name: string, content = text) => {
    const file = join(folder, name);
    writeFileSync(file, content);
    return file;
  };
  const run = async (file: string, args: readonly string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) =>
    (await promisify(execFile)(file, args, { ...options, env: { ...process.env, ...env, ...options.env } })).stdout;
  try {
    if (language === "curl") return await run("sh", ["-c", text]);
    if (language === "TypeScript") {
      const outfile = join(folder, "program.mjs");
      const alias = { [names.npm.client]: join(ROOT, "packages/client/src/index.ts") };
      const entryPoints = [write("program.ts")];
      await build({ entryPoints, outfile, alias, bundle: true, packages: "external", platform: "node", format: "esm" });
      return await run(process.execPath, [outfile]);
    }
    if (language === "Python") {
      const bin = pythonPrograms("client-python", join(PYTHON, "requirements.txt"), "the programs in Python are");
      if (bin === undefined) return undefined;
      return await run(join(bin, "python"), [write("program.py")], { env: { PYTHONPATH: join(PYTHON, "src") } });
    }
    const go = orLeaveOut("go", "the programs in Go are");
    if (go === undefined) return undefined;
    // The program imports the module by its name in a release. In the repository, the module can have a different name.
    const [, module = ""] = /^module (.+)$/m.exec(readFileSync(join(GO, "go.mod"), "utf8")) ?? [];
    return await run(go, ["run", write("program.go", text.replaceAll(names.goModule, module))], { cwd: GO });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
