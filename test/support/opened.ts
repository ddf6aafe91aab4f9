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
export function newServerProcess(options: ServerOptions): ServerProcess {
  return newProcess(startServerProcess(options));
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

/** Which server suites share. */
interface SharedOptions {
  /** Default `node`. */
  readonly runtime?: Runtime;
  /** Undefined: the embedded store. */
  readonly redisUrl?: string | undefined;
}

/** Number of suites that share a server. */
const SUITES_PER_SERVER = 16;

/** Servers that this process has started and no suite has taken yet, by their options. */
const freeShares = new Map<string, TestServer[]>();

/**
 * A server with `ADMIN_ENV` for a suite that does not stop it. The files that a test process runs share it, because a start
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

/** Starts a server for several suites. @returns the server once for each, with environments of its own */
async function startShared(options: SharedOptions): Promise<TestServer[]> {
  const all = Array.from({ length: SUITES_PER_SERVER }, newEnvironments);
  const env = { ...ADMIN_ENV, API_TOKENS: all.map(apiTokensOf).join(",") };
  const server = await startServer(patient({ ...options, env }));
  return all.map((environments) => ({ ...server, ...environments }));
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
