import { mkdtempSync, rmSync } from "node:fs";
import type { Server as HttpServer } from "node:http";
import type { Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished } from "vitest";
import type { StoreClient } from "../../src/store/redis/client.ts";
import { type OpenOptions, openRedis } from "../../src/store/redis/open.ts";
import { openMonitor } from "./monitor.ts";
import type { RunningProcess } from "./process.ts";
import { startRedis, type TestRedis } from "./redis.ts";
import { clusterOperator, startCluster } from "./redis-cluster.ts";
import { openRedisProxy } from "./redis-proxy.ts";
import { startSentinels } from "./redis-sentinel.ts";
import { type LaunchedServer, launch, type ServerOptions, startServer, type TestServer, UNFORESEEN } from "./server.ts";
import { type SharedOptions, takeShare } from "./shared-servers.ts";
import { listen } from "./wait.ts";

/*
 * What tests open, and what closes it, whether they pass or fail, what was opened last first:
 *
 * - `new...` is called in a test, and closed after it. It is not for concurrent tests: Vitest does not know which of
 *   them calls.
 * - `suite...` is called where a suite is described. It opens before the tests of the suite and is closed after them.
 */

/** URL of the real Redis that all tests share; undefined when there is no redis-server. */
export const redisUrl = inject("redisUrl");

/** A suite that is left out where there is no redis-server. */
export const describeWithRedis = describe.skipIf(redisUrl === undefined);

/** Has something closed when the running test is over. */
export function closeLater(close: () => unknown): void {
  onTestFinished(async () => void (await close()));
}

/**
 * A server. It must not warn, and where the test does not end it, it must end with 0 at SIGTERM. It waits for its store as
 * long as a busy machine may take, unless the test says how long.
 */
export const [newServer, suiteServer] = opening(
  (options: ServerOptions = {}) => startServer(patient(options)),
  async (server) => {
    const isRunning = server.isRunning();
    const code = await server.stop();
    expect(server.output()).not.toMatch(UNFORESEEN);
    if (isRunning) expect(code).toBe(0);
  },
);

/** A Redis. */
export const [newRedis, suiteRedis] = opening(startRedis, (redis) => redis.stop());

/** A Cluster. */
export const [newCluster, suiteCluster] = opening(startCluster, (cluster) => cluster.stop());

/** A master, its replicas and Sentinels. */
export const [newSentinels, suiteSentinels] = opening(startSentinels, (sentinels) => sentinels.stop());

/** A proxy in front of a Redis. */
export const [newProxy, suiteProxy] = opening(openRedisProxy, (proxy) => proxy.close());

/** What clients send to a Redis. */
export const [newMonitor] = opening(openMonitor, (monitor) => monitor.close());

/** A connection that reaches every node of a Cluster, as an operator has it. */
export const [, suiteClusterOperator] = opening(clusterOperator, (operator) => operator.disconnect());

/** A server that may not come to listen. */
export function newLaunched(options: ServerOptions): LaunchedServer {
  return newProcess(launch(options));
}

/** Any other process. */
export function newProcess<T extends RunningProcess>(started: T): T {
  closeLater(() => started.stop());
  return started;
}

/** A server of the test itself, which has not listened yet. @returns the URL that it listens at */
export async function newListener(server: Server, scheme: "http" | "https" = "http"): Promise<string> {
  const url = `${scheme}://127.0.0.1:${await listen(server)}`;
  closeLater(() => {
    server.close();
    (server as Partial<HttpServer>).closeAllConnections?.();
  });
  return url;
}

/** An empty folder. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "ugs-test-"));
  closeLater(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A connection to Redis as the service has it. Default: one that is patient. */
export async function newStoreClient(
  { url }: Pick<TestRedis, "url">,
  options: OpenOptions = { timeoutMs: 60_000 },
): Promise<StoreClient> {
  const client = await openRedis(url, options);
  closeLater(() => client.close());
  return client;
}

/** A connection to Redis as an operator has it. */
export function newOperator({ url }: Pick<TestRedis, "url">): Redis {
  const operator = new Redis(url).on("error", () => {});
  closeLater(() => operator.disconnect());
  return operator;
}

/**
 * A server with `ADMIN_ENV` that suites of other files use at the same time, for a suite that needs nothing else: it has
 * environments of its own there, and reads the log from when it began.
 */
export function sharedServer(options: SharedOptions = {}): TestServer {
  return forSuite(
    () => takeShare(inject("sharedServers"), options),
    (server) => expect(server.output()).not.toMatch(UNFORESEEN),
  );
}

/**
 * Opens something before the tests of a suite, and closes it after them.
 *
 * @returns what stands for it: each use is passed on to what was opened. @throws when it is used before the suite begins
 */
export function forSuite<T extends object>(open: () => T | Promise<T>, close: (opened: T) => unknown): T {
  let opened: T | undefined;
  beforeAll(async () => {
    opened = await open();
  });
  afterAll(async () => {
    if (opened) await close(opened);
  });
  return new Proxy({} as T, {
    get: (_, name) => {
      if (!opened) throw new Error(`${String(name)} was asked for before the suite has begun`);
      const value: unknown = Reflect.get(opened, name, opened);
      return typeof value === "function" ? value.bind(opened) : value;
    },
  });
}

/** Has a server wait for its store as long as a busy machine may take, unless a test says how long. */
export function patient(options: ServerOptions): ServerOptions {
  return { ...options, env: { REDIS_TIMEOUT: "10s", ...options.env } };
}

/**
 * Both ways to open something: `new...` and `suite...`.
 *
 * @param open takes one argument at most; where a suite does not know it before it begins, it gives what tells it
 */
function opening<A extends [unknown?], T extends object>(
  open: (...args: A) => T | Promise<T>,
  close: (opened: T) => unknown,
): [(...args: A) => Promise<T>, (...args: A | [() => A[0]]) => T] {
  return [
    async (...args) => {
      const opened = await open(...args);
      closeLater(() => close(opened));
      return opened;
    },
    (...args) => forSuite(() => open(...(args.map((arg) => (typeof arg === "function" ? arg() : arg)) as A)), close),
  ];
}
