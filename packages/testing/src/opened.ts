import { mkdtempSync, rmSync } from "node:fs";
import type { Server as HttpServer } from "node:http";
import type { Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import type { RunningProcess } from "./process.ts";
import { listen } from "./wait.ts";

/*
 * Each helper opens a resource and closes it after the test or suite, even if a test fails. Resources close in reverse
 * order.
 *
 * - Call the functions `new...` in a test, but not in a concurrent test, because Vitest cannot assign the call to one
 * of the concurrent tests.
 * - Call `forSuite` in a `describe` block. The resource is opened before the first test of the block, and closed after
 * the last test.
 */

export function closeLater(close: () => unknown): void {
  onTestFinished(async () => void (await close()));
}

export function newProcess<T extends RunningProcess>(started: T): T {
  closeLater(() => started.stop());
  return started;
}

/** Lets a server listen on a free port until the test ends. @returns the URL of the server */
export async function newListener(server: Server, scheme: "http" | "https" = "http"): Promise<string> {
  const url = `${scheme}://127.0.0.1:${await listen(server)}`;
  closeLater(() => {
    server.close();
    (server as Partial<HttpServer>).closeAllConnections?.();
  });
  return url;
}

export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "ugs-test-"));
  closeLater(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Opens a resource before the first test of a suite, and closes it after the last test.
 *
 * @returns a proxy of the resource. If a property is read before the resource is open, the proxy throws an error
 */
export function forSuite<T extends object>(open: () => T | Promise<T>, close: (opened: T) => unknown): T {
  let opened: T | undefined;
  beforeAll(async () => {
    opened = await open();
  });
  afterAll(async () => {
    if (opened) await close(opened);
  });
  return new Proxy({} as T, {
    get: (_, name) => {
      if (!opened) throw new Error(`${String(name)} was read before the first test of the suite`);
      const value: unknown = Reflect.get(opened, name, opened);
      return typeof value === "function" ? value.bind(opened) : value;
    },
  });
}
