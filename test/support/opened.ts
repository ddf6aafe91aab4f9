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
 * Helpers that open servers and Redis. Call `new...` in a test, and `suite...` in a `describe` block. For details, see
 * packages/testing/src/opened.ts.
 */

/** URL of the Redis that all tests share. Undefined if redis-server is not installed. */
export const redisUrl = inject("redisUrl");

/** Like `describe`, but skips the suite if redis-server is not installed. */
export const describeWithRedis = describe.skipIf(redisUrl === undefined);

/**
 * Starts a server, and stops it with SIGTERM after the test or suite. Then expects that the server has printed no
 * runtime warning and no uncaught error. If the server still ran before SIGTERM, also expects the exit code 0. By
 * default, the timeout of Redis calls is long enough for a busy machine.
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

export const [newRedis, suiteRedis] = opening(startRedis, (redis) => redis.stop());

export const [newCluster, suiteCluster] = opening(startCluster, (cluster) => cluster.stop());

export const [newSentinels, suiteSentinels] = opening(startSentinels, (sentinels) => sentinels.stop());

export const [newProxy, suiteProxy] = opening(openRedisProxy, (proxy) => proxy.close());

export const [newMonitor] = opening(openMonitor, (monitor) => monitor.close());

export const [, suiteClusterOperator] = opening(clusterOperator, (operator) => operator.disconnect());

export function newServerProcess(options: ServerOptions): ServerProcess {
  return newProcess(startServerProcess(options));
}

/**
 * Connects to Redis with the code of the service. By default, the timeout of a Redis call is long enough for a busy
 * machine.
 */
export async function newStoreClient(
  { url }: Pick<TestRedis, "url">,
  options: OpenOptions = { timeoutMs: 60_000 },
): Promise<StoreClient> {
  const client = await openRedis(url, options);
  closeLater(() => client.close());
  return client;
}

export function newOperator({ url }: Pick<TestRedis, "url">): Redis {
  const operator = new Redis(url).on("error", () => {});
  closeLater(() => operator.disconnect());
  return operator;
}

interface SharedOptions {
  readonly runtime?: Runtime;
  /** If undefined, the server uses the embedded store. */
  readonly redisUrl?: string | undefined;
}

const SUITES_PER_SERVER = 16;

/**
 * Running servers that suites can still use, by their options in JSON. Each server has several sets of environments,
 * one per suite. A server is in the list once for each set that no suite uses yet.
 */
const freeShares = new Map<string, TestServer[]>();

/**
 * Returns a server that was started with `ADMIN_ENV`. The test files of a process share the server, because a start
 * costs as much as hundreds of calls. So the suite must not stop the server. The environments are used by no other
 * suite. `output` and `log` contain only text that the server has printed since the suite began.
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

/**
 * Starts a server for several suites.
 *
 * @returns one element for each suite. All elements are the same server, but each element has a different set of
 * environments
 */
async function startShared(options: SharedOptions): Promise<TestServer[]> {
  const all = Array.from({ length: SUITES_PER_SERVER }, newEnvironments);
  const env = { ...ADMIN_ENV, API_TOKENS: all.map(apiTokensOf).join(",") };
  const server = await startServer(patient({ ...options, env }));
  return all.map((environments) => ({ ...server, ...environments }));
}

/** If the options contain no Redis timeout, adds a Redis timeout that is long enough for a busy machine. */
export function patient(options: ServerOptions): ServerOptions {
  return { ...options, env: { REDIS_TIMEOUT: "10s", ...options.env } };
}

/**
 * Creates the functions `new...` and `suite...` for a resource.
 *
 * @param open opens the resource, and has at most one parameter. If a suite passes a function as the argument, the
 * function is called when the suite begins, and `open` receives the result
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
