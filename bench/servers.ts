import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type { CallKey } from "./calls.ts";

/** What the servers run on. */
export type Runtime = "node" | "deno";

/** Every runtime that the service supports. */
export const RUNTIMES: readonly Runtime[] = ["node", "deno"];

/** The core that every server is pinned to. */
export const SERVER_CORE = "0";

/** The core that everything else is pinned to: Redis, the load generator and the benchmark itself. */
export const LOAD_CORE = "1";

/** One row of the table. */
export interface ServerSpec {
  readonly key: "service" | "adapter" | "grpcJs" | "fastify" | "bareHttp2" | "bareHttp";
  readonly title: string;
  /** What it can be asked. */
  readonly calls: readonly CallKey[];
  readonly runtimes: readonly Runtime[];
  /** Its entry, without folder of the build and extension. */
  readonly entry: string;
}

/** Every server, in the order in which a round measures them. */
export const SERVERS: readonly ServerSpec[] = [
  {
    key: "bareHttp2",
    title: "bare node:http2 (floor)",
    calls: ["grpcGet"],
    runtimes: ["node", "deno"],
    entry: "bench/servers/bare-http2",
  },
  {
    key: "bareHttp",
    title: "bare node:http (floor)",
    calls: ["connectGet", "restGet"],
    runtimes: ["node", "deno"],
    entry: "bench/servers/bare-http",
  },
  {
    key: "grpcJs",
    title: "@grpc/grpc-js + ioredis",
    calls: ["grpcGet"],
    runtimes: ["node"],
    entry: "bench/servers/grpc-js",
  },
  {
    key: "fastify",
    title: "Fastify + ioredis",
    calls: ["connectGet", "restGet"],
    runtimes: ["node"],
    entry: "bench/servers/fastify",
  },
  {
    key: "adapter",
    title: "connectNodeAdapter, same service",
    calls: ["grpcGet", "connectGet", "create", "update", "rotate", "resolve"],
    runtimes: ["node", "deno"],
    entry: "bench/servers/adapter",
  },
  {
    key: "service",
    title: "this service",
    calls: ["grpcGet", "connectGet", "restGet", "create", "update", "rotate", "resolve"],
    runtimes: ["node", "deno"],
    entry: "src/main",
  },
];

/** A server that listens, alone on its core. */
export interface BenchServer {
  readonly url: string;
  /** From the start of the process until it listened, in milliseconds. */
  readonly startMs: number;
  /** Processor time it has used so far, in seconds. */
  cpuSeconds(): number;
  /** The most memory that was resident since the last `forgetPeak`, in MiB. */
  peakMiB(): number;
  forgetPeak(): void;
  stop(): Promise<void>;
}

/** Starts a server and waits until it listens. @throws when it ends instead */
export async function startServer(
  spec: ServerSpec,
  runtime: Runtime,
  env: { readonly [name: string]: string },
): Promise<BenchServer> {
  const { PATH = "", HOME = "" } = process.env;
  const started = performance.now();
  const child = spawn("taskset", ["-c", SERVER_CORE, ...commandOf(spec, runtime)], {
    env: { PATH, HOME, NODE_ENV: "production", NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const url = await listening(child, spec.title);
  const proc = `/proc/${child.pid}`;
  return {
    url,
    startMs: performance.now() - started,
    cpuSeconds: () => cpuSeconds(proc),
    peakMiB: () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`${proc}/status`, "utf8"))?.[1]) / 1024,
    forgetPeak: () => writeFileSync(`${proc}/clear_refs`, "5"),
    stop: async () => {
      child.kill(spec.key === "service" ? "SIGTERM" : "SIGKILL");
      await exited;
    },
  };
}

/** What the line says that a server writes once it listens. What it writes later is read and dropped. */
function listening({ stdout }: ChildProcessByStdio<null, Readable, null>, title: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = "";
    stdout.on("data", (chunk: Buffer) => {
      output += chunk;
      const line = output.split("\n").find((text) => text.includes('"msg":"listening"') && text.endsWith("}"));
      if (line === undefined) return;
      stdout.removeAllListeners().resume();
      resolve((JSON.parse(line) as { url: string }).url);
    });
    stdout.on("close", () => reject(new Error(`${title} did not listen:\n${output}`)));
  });
}

function commandOf({ key, entry }: ServerSpec, runtime: Runtime): string[] {
  if (runtime === "deno") {
    const permissions = key === "service" ? "-P" : "-A";
    return [denoBinary(), "run", "--no-prompt", permissions, `${entry}.ts`];
  }
  if (key === "service") return [process.execPath, "dist/main.js"];
  return [process.execPath, `dist-bench/${entry}.js`];
}

/** The Deno executable itself: signals to the npm package's launcher do not reach it. */
export function denoBinary(): string {
  const folder = "node_modules/@deno";
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const path = join(folder, name, "deno");
    if (existsSync(path)) return path;
  }
  throw new Error("the npm package deno has no executable for this platform; run npm ci");
}

/** User and system time of a process with its threads; the kernel counts in hundredths of a second. */
function cpuSeconds(proc: string): number {
  const stat = readFileSync(`${proc}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
