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
    /** URL of the real Redis that all tests share; undefined when there is no redis-server. */
    redisUrl: string | undefined;
    /** Path of Chromium; undefined when it is not installed. */
    chromiumPath: string | undefined;
  }
}

/** Builds the server once, makes the certificates that all tests share, and starts the Redis that they share. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  execFileSync(process.execPath, ["scripts/build.js"], { cwd: ROOT, stdio: "inherit" });
  const certificates = makeCertificates();
  project.provide("certificates", certificates);
  project.provide("chromiumPath", orLeaveOut("chromium", "the tests in a browser are"));
  if (orLeaveOut("redis-server", "everything that needs a real Redis is") === undefined) {
    project.provide("redisUrl", undefined);
    return async () => removeCertificates(certificates);
  }
  const redis = await startRedis();
  // Some tests write to it beneath a server, and servers take what they find without a number for data of another release.
  await ask(redis, "SET", FORMAT_KEY, LAYOUT);
  project.provide("redisUrl", redis.url);
  return async () => {
    removeCertificates(certificates);
    await redis.stop();
  };
}
