import { closeLater, forSuite, newProcess } from "@user-group-service/testing/opened";
import { type Runtime, UNFORESEEN } from "@user-group-service/testing/runtime";
import { Redis } from "ioredis";
import { describe, expect, inject } from "vitest";
import type { StoreClient } from "../../src/store/connection/client.ts";
import { openMonitor } from "./monitor.ts";
import { type OpenOptions, openRedis } from "./open-redis.ts";
import { startRedis, type TestRedis } from "./redis.ts";
import { clusterOperator, startCluster } from "./redis-cluster.ts";
import { openRedisProxy } from "./redis-proxy.ts";
import { startSentinels } from "./redis-sentinel.ts";
import {
  ADMIN_ENV,
  apiTokensOf,
  linesOf,
  newEnvironments,
  type ServerOptions,
  type ServerProcess,
  startServer,
  startServerProcess,
  type TestServer,
} from "./server.ts";

/*
 * Helpers that open servers and Redis: call `new...` in a test, and `suite...` in a `describe` block. See
 * packages/testing/src/opened.ts.
 */

/** URL of the Redis that all tests share; undefined if redis-server is missing. */
export const redisUrl = inject("redisUrl");

/** A suite that is skipped if redis-server is missing. */
export const describeWithRedis = describe.skipIf(redisUrl === undefined);

/**
 * A server. The server must not write warnings. Unless the test stops it, it must exit with 0 on SIGTERM. Its default
 * store timeout suits a busy machine.
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

/** A Redis Cluster. */
export const [newCluster, suiteCluster] = opening(startCluster, (cluster) => cluster.stop());

/** A master with replicas and Sentinels. */
export const [newSentinels, suiteSentinels] = opening(startSentinels, (sentinels) => sentinels.stop());

/** A proxy in front of a Redis. */
export const [newProxy, suiteProxy] = opening(openRedisProxy, (proxy) => proxy.close());

/** A monitor of the commands that clients send to a Redis. */
export const [newMonitor] = opening(openMonitor, (monitor) => monitor.close());

/** A connection to all nodes of a Cluster, as an operator has it. */
export const [, suiteClusterOperator] = opening(clusterOperator, (operator) => operator.disconnect());

/** Starts a server process that may not become ready. */
export function newServerProcess(options: ServerOptions): ServerProcess {
  return newProcess(startServerProcess(options));
}

/** Opens a connection to Redis, as the service does. The default timeout suits a busy machine. */
export async function newStoreClient(
  { url }: Pick<TestRedis, "url">,
  options: OpenOptions = { timeoutMs: 60_000 },
): Promise<StoreClient> {
  const client = await openRedis(url, options);
  closeLater(() => client.close());
  return client;
}

/** Opens a connection to Redis, as an operator does. */
export function newOperator({ url }: Pick<TestRedis, "url">): Redis {
  const operator = new Redis(url).on("error", () => {});
  closeLater(() => operator.disconnect());
  return operator;
}

/** Options of a shared server. */
interface SharedOptions {
  /** Default `node`. */
  readonly runtime?: Runtime;
  /** Undefined: the embedded store. */
  readonly redisUrl?: string | undefined;
}

/** Number of suites that share a server. */
const SUITES_PER_SERVER = 16;

/** Running servers with free environments, by their options. */
const freeShares = new Map<string, TestServer[]>();

/**
 * A server with `ADMIN_ENV` for a suite that does not stop it. All test files of a process share it, because a start
 * costs as much as hundreds of calls. Each suite has its own environments there, and its log begins with the suite.
 */
export function sharedServer(options: SharedOptions = {}): TestServer {
  return forSuite(
    async () => {
      const key = JSON.stringify(options);
      const free = freeShares.get(key)?.length ? (freeShares.get(key) as TestServer[]) : await startShared(options);
      freeShares.set(key, free);
      const server = free.pop() as TestServer;
      const start = server.output().length;
      const output = () => server.output().slice(start);
      return { ...server, output, log: linesOf(output) };
    },
    (server) => expect(server.output()).not.toMatch(UNFORESEEN),
  );
}

/** Starts a server for several suites. @returns the server, once for each set of environments */
async function startShared(options: SharedOptions): Promise<TestServer[]> {
  const all = Array.from({ length: SUITES_PER_SERVER }, newEnvironments);
  const env = { ...ADMIN_ENV, API_TOKENS: all.map(apiTokensOf).join(",") };
  const server = await startServer(patient({ ...options, env }));
  return all.map((environments) => ({ ...server, ...environments }));
}

/** Gives a server a store timeout for a busy machine, unless the test sets one. */
export function patient(options: ServerOptions): ServerOptions {
  return { ...options, env: { REDIS_TIMEOUT: "10s", ...options.env } };
}

/**
 * Creates the functions `new...` and `suite...` for something to open.
 *
 * @param open takes at most one argument. A suite can pass a function that returns it later
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
