import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import { onPath } from "./on-path.ts";
import { findRedisServer, startRedis } from "./redis.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** URL of the real Redis that all tests share; undefined when there is no redis-server. */
    redisUrl: string | undefined;
    /** Path of Chromium; undefined when it is not installed. */
    chromiumPath: string | undefined;
  }
}

/** Builds the server once and starts the Redis that all tests share. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  execFileSync(process.execPath, ["scripts/build.js"], { cwd: root, stdio: "inherit" });
  const chromiumPath = onPath("chromium");
  if (chromiumPath === undefined) leaveOut("chromium is not on the PATH: the tests in a browser are LEFT OUT");
  project.provide("chromiumPath", chromiumPath);
  if (findRedisServer() === undefined) {
    leaveOut("redis-server is not on the PATH: everything that needs a real Redis is LEFT OUT");
    project.provide("redisUrl", undefined);
    return async () => {};
  }
  const redis = await startRedis();
  project.provide("redisUrl", redis.url);
  return () => redis.stop();
}

/** Says what is left out. @throws where continuous integration runs the tests, which is to leave out nothing */
function leaveOut(text: string): void {
  if (process.env["CI"] === "true") throw new Error(`${text}, which CI does not allow`);
  console.warn(`\n*** ${text} ***\n`);
}
