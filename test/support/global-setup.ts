import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import { findRedisServer, startRedis } from "./redis.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** URL of the real Redis that all tests share; undefined when there is no redis-server. */
    redisUrl: string | undefined;
  }
}

/** Builds the server once and starts the Redis that all tests share. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  execFileSync(process.execPath, ["scripts/build.js"], { cwd: root, stdio: "inherit" });
  if (findRedisServer() === undefined) {
    const text = "redis-server is not on the PATH: everything that needs a real Redis is LEFT OUT";
    if (process.env["CI"] === "true") throw new Error(`${text}, which CI does not allow`);
    console.warn(`\n*** ${text} ***\n`);
    project.provide("redisUrl", undefined);
    return async () => {};
  }
  const redis = await startRedis();
  project.provide("redisUrl", redis.url);
  return () => redis.stop();
}
