import { mkdtempSync, rmSync } from "node:fs";
import type { Server as HttpServer } from "node:http";
import type { Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished } from "vitest";
import type { StoreClient } from "../../src/store/redis/client.ts";
import { type OpenOptions, openRedis } from "../../src/store/redis/open.ts";
import { type Monitor, openMonitor } from "./monitor.ts";
import type { RunningProcess } from "./process.ts";
import { startRedis, type TestRedis } from "./redis.ts";
import { clusterOperator, startCluster, type TestCluster } from "./redis-cluster.ts";
import { openRedisProxy, type RedisProxy } from "./redis-proxy.ts";
import { type SentinelOptions, startSentinels, type TestSentinels } from "./redis-sentinel.ts";
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

/** A server. It must not warn, and where the test does not end it, it must end with 0 at SIGTERM. */
export async function newServer(options: ServerOptions = {}): Promise<TestServer> {
  const server = await startServer(patient(options));
  closeLater(() => endServer(server));
  return server;
}

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

/** A Redis. */
export async function newRedis(args: readonly string[] = []): Promise<TestRedis> {
  const redis = await startRedis(args);
  closeLater(() => redis.stop());
  return redis;
}

/** What clients send to a Redis. */
export async function newMonitor(redis: Pick<TestRedis, "port">): Promise<Monitor> {
  const monitor = await openMonitor(redis);
  closeLater(() => monitor.close());
  return monitor;
}

/** A proxy in front of a Redis. */
export async function newProxy({ port }: Pick<TestRedis, "port">): Promise<RedisProxy> {
  const proxy = await openRedisProxy(port);
  closeLater(() => proxy.close());
  return proxy;
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

/** A Cluster. */
export async function newCluster(...args: Parameters<typeof startCluster>): Promise<TestCluster> {
  const cluster = await startCluster(...args);
  closeLater(() => cluster.stop());
  return cluster;
}

/** A master, its replicas and Sentinels. */
export async function newSentinels(options: SentinelOptions = {}): Promise<TestSentinels> {
  const sentinels = await startSentinels(options);
  closeLater(() => sentinels.stop());
  return sentinels;
}

/** A Cluster for a suite. */
export function suiteCluster(...args: Parameters<typeof startCluster>): TestCluster {
  return forSuite(
    () => startCluster(...args),
    (cluster) => cluster.stop(),
  );
}

/** A connection for a suite that reaches every node of a Cluster. */
export function suiteClusterOperator(cluster: TestCluster): ReturnType<typeof clusterOperator> {
  return forSuite(
    () => clusterOperator(cluster),
    (operator) => operator.disconnect(),
  );
}

/** A master, its replicas and Sentinels for a suite. */
export function suiteSentinels(options: SentinelOptions = {}): TestSentinels {
  return forSuite(
    () => startSentinels(options),
    (sentinels) => sentinels.stop(),
  );
}

/** A connection to Redis as an operator has it. */
export function newOperator({ url }: Pick<TestRedis, "url">): Redis {
  const operator = new Redis(url).on("error", () => {});
  closeLater(() => operator.disconnect());
  return operator;
}

/** A server for a suite, as `newServer`. @param options what is not there before the suite begins is told by a function */
export function suiteServer(options: ServerOptions | (() => ServerOptions) = {}): TestServer {
  return forSuite(() => startServer(patient(typeof options === "function" ? options() : options)), endServer);
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

/** A Redis for a suite. */
export function suiteRedis(args: readonly string[] | (() => readonly string[]) = []): TestRedis {
  return forSuite(
    () => startRedis(typeof args === "function" ? args() : args),
    (redis) => redis.stop(),
  );
}

/** A proxy for a suite, in front of a Redis. */
export function suiteProxy(redis: Pick<TestRedis, "port">): RedisProxy {
  return forSuite(
    () => openRedisProxy(redis.port),
    (proxy) => proxy.close(),
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

async function endServer(server: TestServer): Promise<void> {
  const isRunning = server.isRunning();
  const code = await server.stop();
  expect(server.output()).not.toMatch(UNFORESEEN);
  if (isRunning) expect(code).toBe(0);
}
