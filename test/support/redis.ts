import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { onPath } from "./on-path.ts";
import { freePort, waitFor } from "./wait.ts";

/** What was started here and runs. */
const running = new Set<ChildProcess>();

process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A Redis server of our own, in a folder of its own. */
export interface TestRedis {
  readonly url: string;
  readonly port: number;
  isRunning(): boolean;
  /** Ends it as a crash does, keeping its port. */
  kill(): Promise<void>;
  /** Starts it again on the same port and folder, after `kill`. */
  restart(): Promise<void>;
  /** Freezes it: connections stay open and nothing answers. */
  freeze(): void;
  /** Ends `freeze`. */
  thaw(): void;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

/** Path of redis-server; undefined when it is not installed. */
export function findRedisServer(): string | undefined {
  return onPath("redis-server");
}

/** Starts redis-server; it ends with this process at the latest. @throws when it is not installed */
export function spawnRedisServer(args: readonly string[]): ChildProcess {
  const binary = findRedisServer();
  if (binary === undefined) throw new Error("redis-server is not on the PATH");
  const child = spawn(binary, args, { stdio: "ignore" });
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
}

/** Starts a Redis server on a free port of 127.0.0.1 and waits until it answers. */
export async function startRedis(args: readonly string[] = []): Promise<TestRedis> {
  const folder = mkdtempSync(join(tmpdir(), "ugs-redis-"));
  const port = await freePort();
  const options = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--daemonize", "no"];
  // By itself it takes the port 10,000 above, which the system may have given to a connection.
  if (args.includes("--cluster-enabled")) options.push("--cluster-port", String(await freePort()));
  let child: ChildProcess;
  const launch = async () => {
    child = spawnRedisServer([...options, ...args]);
    await waitFor("redis-server answers", () => {
      if (child.exitCode !== null) throw new Error(`redis-server on port ${port} ended with ${child.exitCode}`);
      return answers(port);
    });
  };
  const end = (signal: NodeJS.Signals) => endProcess(child, signal);
  await launch();
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    kill: () => end("SIGKILL"),
    restart: launch,
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    stop: async () => {
      child.kill("SIGCONT");
      await end("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Ends a process that was started here, and waits until it is gone. */
export function endProcess(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", () => resolve());
    child.kill(signal);
  });
}

/** Asks a Redis or a Sentinel one thing, on a connection of its own. @throws when it does not answer, or refuses */
export async function ask(
  { port, password }: { readonly port: number; readonly password?: string },
  command: string,
  ...args: string[]
): Promise<unknown> {
  const redis = new Redis(port, "127.0.0.1", {
    lazyConnect: true,
    retryStrategy: () => null,
    // One that is not there refuses at once; one that is may be busy.
    connectTimeout: 5000,
    commandTimeout: 5000,
    enableReadyCheck: false,
    ...(password !== undefined && { password }),
  });
  redis.on("error", () => {});
  try {
    await redis.connect();
    return await redis.call(command, ...args);
  } finally {
    redis.disconnect();
  }
}

async function answers(port: number): Promise<boolean> {
  const redis = new Redis(port, "127.0.0.1", { lazyConnect: true, retryStrategy: () => null, connectTimeout: 500 });
  redis.on("error", () => {});
  try {
    await redis.connect();
    return (await redis.ping()) === "PONG";
  } catch {
    return false;
  } finally {
    redis.disconnect();
  }
}
