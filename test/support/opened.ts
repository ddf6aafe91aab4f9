import { closeLater, forSuite, newProcess } from "@user-group-service/testing/opened";
import { UNFORESEEN } from "@user-group-service/testing/runtime";
import { Redis } from "ioredis";
import { describe, expect, inject } from "vitest";
import type { StoreClient } from "../../src/store/connection/client.ts";
import { openMonitor } from "./monitor.ts";
import { type OpenOptions, openRedis } from "./open-redis.ts";
import { startRedis, type TestRedis } from "./redis.ts";
import { clusterOperator, startCluster } from "./redis-cluster.ts";
import { openRedisProxy } from "./redis-proxy.ts";
import { startSentinels } from "./redis-sentinel.ts";
import { type LaunchedServer, launch, type ServerOptions, startServer, type TestServer } from "./server.ts";
import { type SharedOptions, takeShare } from "./shared-servers.ts";

/*
 * What tests open, as packages/testing/src/opened.ts says: `new...` is called in a test, and `suite...` where a suite is
 * described.
 */

/** URL of the real Redis that all tests share; undefined when there is no redis-server. */
export const redisUrl = inject("redisUrl");

/** A suite that is left out where there is no redis-server. */
export const describeWithRedis = describe.skipIf(redisUrl === undefined);

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
