import type { ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { spawnOn } from "./children.ts";
import { cpuSeconds, SERVER_CORE } from "./cores.ts";
import type { Row } from "./rows.ts";
import { BUILD_FOLDER, type RuntimeInfo } from "./runtimes.ts";

/** A server that listens, pinned to the servers' core. */
export interface BenchServer {
  readonly row: Row;
  /** Where it serves a version of HTTP. */
  url(http: 1 | 2): string;
  /** From the start of the process until it listened, in milliseconds. */
  readonly startMs: number;
  /** Processor time that it has used so far, user and system, in seconds. */
  cpuSeconds(): number;
  /** The most memory that was resident since the last `forgetPeak`, in MiB. */
  peakMiB(): number;
  forgetPeak(): void;
  stop(): Promise<void>;
}

/** Starts a server and waits until it listens. @throws when it ends instead */
export async function startServer(
  row: Row,
  { path }: RuntimeInfo,
  env: { readonly [name: string]: string },
): Promise<BenchServer> {
  const { PATH = "", HOME = "" } = process.env;
  const started = performance.now();
  const child = spawnOn(SERVER_CORE, [path, ...argumentsOf(row)], {
    PATH,
    HOME,
    NODE_ENV: "production",
    NO_COLOR: "1",
    ...env,
  });
  const exited = once(child, "exit");
  const { url, http2Url = url } = await listening(child, row.key);
  const startMs = performance.now() - started;
  const proc = `/proc/${child.pid}`;
  return {
    row,
    url: (http) => (http === 2 ? http2Url : url),
    startMs,
    cpuSeconds: () => cpuSeconds(proc),
    peakMiB: () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`${proc}/status`, "utf8"))?.[1]) / 1024,
    forgetPeak: () => writeFileSync(`${proc}/clear_refs`, "5"),
    stop: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** What the line says that a server writes once it listens. What it writes later is read and dropped. */
function listening(
  { stdout }: ChildProcessByStdio<null, Readable, null>,
  name: string,
): Promise<{ url: string; http2Url?: string }> {
  return new Promise((resolve, reject) => {
    let output = "";
    stdout.on("data", (chunk: Buffer) => {
      output += chunk;
      const line = output.split("\n").find((text) => text.includes('"msg":"listening"') && text.endsWith("}"));
      if (line === undefined) return;
      stdout.removeAllListeners().resume();
      resolve(JSON.parse(line));
    });
    stdout.on("close", () => reject(new Error(`${name} did not listen:\n${output}`)));
  });
}

function argumentsOf({ runtime, entry, storage }: Row): string[] {
  if (runtime === "go") return [entry];
  const file = entry.includes("/") ? entry : undefined;
  if (runtime === "deno") {
    const permissions = storage === "service" ? "-P" : "-A";
    return ["run", "--no-prompt", permissions, file ?? `bench/servers/${entry}.ts`];
  }
  return [file ?? join(BUILD_FOLDER, "servers", `${entry}.js`)];
}
