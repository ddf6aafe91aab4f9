import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { cpus, release, totalmem } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { denoBinary, LOAD_CORE, type Runtime } from "./servers.ts";

/** Programs that the benchmark needs, and where Debian has them. */
const TOOLS = { h2load: "nghttp2-client", taskset: "util-linux", "redis-server": "redis-server" } as const;

/** What the benchmark ran on. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly runtime: string;
  readonly redis: string;
  readonly h2load: string;
  readonly date: string;
}

/** @throws when a tool is missing, or there is no second core */
export function requireTools(): void {
  const missing = Object.entries(TOOLS).filter(([tool]) => !isInstalled(tool));
  if (missing.length > 0) {
    const names = missing.map(([tool]) => tool).join(", ");
    const packages = missing.map(([, name]) => name).join(" ");
    throw new Error(`not found: ${names}; on Debian: apt-get install ${packages}`);
  }
  if (cpus().length < 2) throw new Error("two cores are needed: one for the server, one for Redis and the load");
}

/** Keeps this process, and so all it starts but the servers, off the servers' core. */
export function pinToLoadCore(): void {
  execFileSync("taskset", ["-a", "-p", "-c", LOAD_CORE, String(process.pid)], { stdio: "ignore" });
}

/** Describes this machine and what runs on it. */
export function describeMachine(runtime: Runtime): Machine {
  const [cpu] = cpus();
  return {
    cpu: cpu?.model ?? "unknown",
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    runtime: runtime === "node" ? `Node ${process.versions.node}` : firstLine(denoBinary(), "--version"),
    redis: /v=(\S+)/.exec(firstLine("redis-server", "--version"))?.[1] ?? "unknown",
    h2load: firstLine("h2load", "--version"),
    date: new Date().toISOString().slice(0, 10),
  };
}

/** Starts a Redis of the benchmark's own on the load core. */
export async function startRedis(folder: string): Promise<{ url: string; stop(): Promise<void> }> {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const options = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""];
  const child = spawn("taskset", ["-c", LOAD_CORE, "redis-server", ...options], { stdio: "ignore" });
  await ready(port, child);
  const exited = once(child, "exit");
  return {
    url: `redis://127.0.0.1:${port}`,
    stop: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

async function ready(port: number, child: ChildProcess): Promise<void> {
  const redis = new Redis(port, "127.0.0.1", { lazyConnect: true, retryStrategy: () => null });
  redis.on("error", () => {});
  try {
    for (;;) {
      if (child.exitCode !== null) throw new Error("redis-server ended at once");
      try {
        await redis.connect();
        return;
      } catch {
        await sleep(20);
      }
    }
  } finally {
    redis.disconnect();
  }
}

/** A port of 127.0.0.1 that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}

function isInstalled(tool: string): boolean {
  try {
    execFileSync("sh", ["-c", `command -v ${tool}`], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

function firstLine(command: string, argument: string): string {
  return execFileSync(command, [argument], { encoding: "utf8" }).split("\n")[0] ?? "";
}
