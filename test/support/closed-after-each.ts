import { afterEach } from "vitest";
import { startRedis, type TestRedis } from "./redis.ts";
import { startServer, type TestServer } from "./server.ts";

/** What the test that is running has opened; it is closed after the test, last opened first. */
export const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Starts a Redis for the test that is running. */
export async function newRedis(args: readonly string[] = []): Promise<TestRedis> {
  const redis = await startRedis(args);
  closers.push(() => redis.stop());
  return redis;
}

/** Starts a server for the test that is running. */
export async function newServer(options: Parameters<typeof startServer>[0]): Promise<TestServer> {
  const server = await startServer(options);
  closers.push(() => server.stop());
  return server;
}
