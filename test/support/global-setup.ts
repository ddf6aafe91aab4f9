import { execFileSync } from "node:child_process";
import { makeCertificates, removeCertificates } from "@user-group-service/testing/certificates";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { ROOT } from "@user-group-service/testing/process";
import type { TestProject } from "vitest/node";
import { LAYOUT } from "../../src/server/redis-state.ts";
import { FORMAT_KEY } from "../../src/store/keys.ts";
import { ask, startRedis } from "./redis.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** URL of the Redis that all tests share. Undefined if redis-server is not installed. */
    redisUrl: string | undefined;
    /** Path of the executable of Chromium. Undefined if Chromium is not installed. */
    chromiumPath: string | undefined;
  }
}

/** Builds the server, creates the shared certificates, and starts the shared Redis. Runs once per test run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  execFileSync(process.execPath, ["scripts/build.js"], { cwd: ROOT, stdio: "inherit" });
  const certificates = makeCertificates();
  project.provide("certificates", certificates);
  project.provide("chromiumPath", orLeaveOut("chromium", "the tests in a browser are"));
  if (orLeaveOut("redis-server", "all tests that need Redis are") === undefined) {
    project.provide("redisUrl", undefined);
    return async () => removeCertificates(certificates);
  }
  const redis = await startRedis();
  // A server refuses to start on a Redis that contains data, but no layout number. Some tests write to this Redis
  // before the first server has stored the layout number. So store the layout number here.
  await ask(redis, "SET", FORMAT_KEY, LAYOUT);
  project.provide("redisUrl", redis.url);
  return async () => {
    removeCertificates(certificates);
    await redis.stop();
  };
}
