import { execFileSync } from "node:child_process";
import type { TestProject } from "vitest/node";
import { type Certificates, makeCertificates, removeCertificates } from "./certificates.ts";
import { onPath } from "./on-path.ts";
import { ROOT } from "./process.ts";
import { findRedisServer, startRedis } from "./redis.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** URL of the real Redis that all tests share; undefined when there is no redis-server. */
    redisUrl: string | undefined;
    /** Path of Chromium; undefined when it is not installed. */
    chromiumPath: string | undefined;
    /** The certificates that all tests share. */
    certificates: Certificates;
  }
}

/** Builds the server once and makes the certificates that all tests share; gives what removes those. */
export function buildAndCertify(project: TestProject): () => void {
  execFileSync(process.execPath, ["scripts/build.js"], { cwd: ROOT, stdio: "inherit" });
  const certificates = makeCertificates();
  project.provide("certificates", certificates);
  return () => removeCertificates(certificates);
}

/** As `buildAndCertify`, and starts the Redis that all tests share. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const removeAll = buildAndCertify(project);
  const chromiumPath = onPath("chromium");
  if (chromiumPath === undefined) leaveOut("chromium is not on the PATH: the tests in a browser are LEFT OUT");
  project.provide("chromiumPath", chromiumPath);
  if (findRedisServer() === undefined) {
    leaveOut("redis-server is not on the PATH: everything that needs a real Redis is LEFT OUT");
    project.provide("redisUrl", undefined);
    return async () => removeAll();
  }
  const redis = await startRedis();
  project.provide("redisUrl", redis.url);
  return async () => {
    await redis.stop();
    removeAll();
  };
}

/** Says what is left out. @throws where continuous integration runs the tests, which is to leave out nothing */
function leaveOut(text: string): void {
  if (process.env["CI"] === "true") throw new Error(`${text}, which CI does not allow`);
  console.warn(`\n*** ${text} ***\n`);
}
