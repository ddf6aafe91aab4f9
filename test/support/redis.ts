import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onPath } from "@user-group-service/testing/on-path";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { Redis } from "ioredis";

/** What was started here and runs. */
const running = new Set<ChildProcess>();

process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A Redis server or a Sentinel of our own, in a folder of its own. */
export interface TestRedis {
  readonly url: string;
  readonly port: number;
  readonly folder: string;
  isRunning(): boolean;
  /** Ends it as a crash does, keeping its port. */
  kill(): Promise<void>;
  /** Starts it again on the same port and folder, after `kill`. @param more arguments */
  restart(more?: readonly string[]): Promise<void>;
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

/** Starts a Redis server on a free port of 127.0.0.1 and waits until it answers. */
export async function startRedis(args: readonly string[] = []): Promise<TestRedis> {
  // By itself it takes the port 10,000 above, which the system may have given to a connection.
  const bus = args.includes("--cluster-enabled") ? ["--cluster-port", String(await freePort())] : [];
  return startIn((folder, port) => [
    ...["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--daemonize", "no"],
    ...[...bus, ...args],
  ]);
}

/**
 * Starts redis-server on a free port, in a new folder, and waits until it answers. It ends with this process at the latest.
 *
 * @param argsFor its arguments @param password what it wants to be told @throws when it is not installed
 */
export async function startIn(
  argsFor: (folder: string, port: number) => readonly string[],
  password?: string,
): Promise<TestRedis> {
  const binary = findRedisServer();
  if (binary === undefined) throw new Error("redis-server is not on the PATH");
  const folder = mkdtempSync(join(tmpdir(), "ugs-redis-"));
  const port = await freePort();
  const args = argsFor(folder, port);
  let child: ChildProcess;
  const launch = async (more: readonly string[] = []) => {
    const started = spawn(binary, [...args, ...more], { stdio: "ignore" });
    child = started;
    running.add(started);
    started.once("exit", () => running.delete(started));
    await waitFor("redis-server answers", () => {
      if (child.exitCode !== null) throw new Error(`redis-server on port ${port} ended with ${child.exitCode}`);
      return ask({ port, password }, "PING").catch((error) => /NOAUTH/.test(String(error)) || undefined);
    });
  };
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const kill = async () => {
    if (!isRunning()) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  await launch();
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    folder,
    isRunning,
    kill,
    restart: launch,
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    stop: async () => {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Asks a Redis or a Sentinel one thing, on a connection of its own. @throws when it does not answer, or refuses */
export async function ask(
  { port, password }: { readonly port: number; readonly password?: string | undefined },
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
