import { type ChildProcess, execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { cpus, release, totalmem } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { spawnOn } from "./children.ts";
import { cpuSeconds, LOAD_CORE } from "./cores.ts";
import { firstLine, isInstalled, type RuntimeInfo } from "./runtimes.ts";

/** Programs that the benchmark needs, and where Debian has them. */
const TOOLS = { h2load: "nghttp2-client", taskset: "util-linux", "redis-server": "redis-server" } as const;

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

/** This machine and what runs on it, in a line. */
export function describeMachine(runtimes: readonly RuntimeInfo[]): string {
  const [cpu] = cpus();
  return [
    new Date().toISOString().slice(0, 10),
    `${cpu?.model ?? "unknown"}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`,
    `Linux ${release()}`,
    ...runtimes.map(({ version }) => version),
    `Redis ${/v=(\S+)/.exec(firstLine("redis-server", "--version"))?.[1] ?? "unknown"}`,
    firstLine("h2load", "--version"),
  ].join("; ");
}

/** Starts a Redis of the benchmark's own on the load core. */
export async function startRedis(
  folder: string,
): Promise<{ url: string; cpuSeconds(): number; stop(): Promise<void> }> {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const options = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""];
  const child = spawnOn(LOAD_CORE, ["redis-server", ...options]);
  child.stdout.resume();
  await ready(port, child);
  const exited = once(child, "exit");
  return {
    url: `redis://127.0.0.1:${port}`,
    cpuSeconds: () => cpuSeconds(`/proc/${child.pid}`),
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
