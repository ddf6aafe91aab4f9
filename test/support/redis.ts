import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onPath } from "@user-group-service/testing/on-path";
import { type RunningProcess, startProcess } from "@user-group-service/testing/process";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { Redis } from "ioredis";

/** A process of redis-server, which runs as a Redis node or as a Sentinel. */
export interface TestRedis {
  readonly url: string;
  readonly port: number;
  readonly folder: string;
  isRunning(): boolean;
  /** Kills the process. Its port stays reserved, so that `restart` can use the same port. */
  kill(): Promise<void>;
  /**
   * Starts the process again after `kill`, with the same port, folder and arguments. `more` are additional arguments.
   */
  restart(more?: readonly string[]): Promise<void>;
  /** Suspends the process until `thaw`. The process keeps its connections open, but does not respond. */
  freeze(): void;
  thaw(): void;
  stop(): Promise<void>;
}

/**
 * With these arguments, Redis writes each change to its append-only file before it acknowledges the change. With the
 * default of `appendfsync`, Redis may write the change up to two seconds later. A kill could then lose the key that
 * identifies the data of the service. Without this key, the service would refuse the restarted Redis.
 */
export const DURABLE = ["--appendonly", "yes", "--appendfsync", "always"];

/** Starts a Redis node on a free port of 127.0.0.1, and waits until it responds. */
export async function startRedis(args: readonly string[] = []): Promise<TestRedis> {
  // The default bus port is the port plus 10,000. A connection of another process may already use this bus port, so
  // pass a free bus port.
  const bus = args.includes("--cluster-enabled") ? ["--cluster-port", String(await freePort())] : [];
  return startIn((folder, port) => [
    ...["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--daemonize", "no"],
    ...[...bus, ...args],
  ]);
}

/**
 * Starts redis-server on a free port in a new folder, and waits until redis-server responds. If no test stops
 * redis-server, it stops when this process exits.
 *
 * @param argsFor returns the arguments of redis-server
 * @param password password with which the test connects
 * @throws if redis-server is not installed
 */
export async function startIn(
  argsFor: (folder: string, port: number) => readonly string[],
  password?: string,
): Promise<TestRedis> {
  const binary = onPath("redis-server");
  if (binary === undefined) throw new Error("redis-server is not on the PATH");
  const folder = mkdtempSync(join(tmpdir(), "ugs-redis-"));
  const port = await freePort();
  const args = argsFor(folder, port);
  let server: RunningProcess;
  const launch = async (more: readonly string[] = []) => {
    server = startProcess([binary, ...args, ...more]);
    await waitFor("redis-server responds", () => {
      if (!server.isRunning()) throw new Error(`redis-server on port ${port} exited:\n${server.output()}`);
      return ask({ port, password }, "PING").catch((error) => /NOAUTH/.test(String(error)) || undefined);
    });
  };
  const kill = async () => {
    server.signal("SIGKILL");
    await server.exited();
  };
  await launch();
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    folder,
    isRunning: () => server.isRunning(),
    kill,
    restart: launch,
    freeze: () => void server.signal("SIGSTOP"),
    thaw: () => void server.signal("SIGCONT"),
    stop: async () => {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Sends one command to a Redis or Sentinel on a new connection.
 *
 * @throws if no answer arrives in time, or if the answer is an error
 */
export async function ask(
  { port, password }: { readonly port: number; readonly password?: string | undefined },
  command: string,
  ...args: string[]
): Promise<unknown> {
  const redis = new Redis(port, "127.0.0.1", {
    lazyConnect: true,
    retryStrategy: () => null,
    // If no server listens on the port, the connection is refused at once. So the timeout only matters if the server is
    // busy.
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
