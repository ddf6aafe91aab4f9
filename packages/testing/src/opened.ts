import { mkdtempSync, rmSync } from "node:fs";
import type { Server as HttpServer } from "node:http";
import type { Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import type { RunningProcess } from "./process.ts";
import { listen } from "./wait.ts";

/*
 * What tests open, and what closes it, whether they pass or fail, what was opened last first:
 *
 * - `new...` is called in a test, and closed after it. It is not for concurrent tests: Vitest does not know which of
 *   them calls.
 * - `forSuite` is called where a suite is described. It opens before the tests of the suite and is closed after them.
 */

/** Has something closed when the running test is over. */
export function closeLater(close: () => unknown): void {
  onTestFinished(async () => void (await close()));
}

/** A process. */
export function newProcess<T extends RunningProcess>(started: T): T {
  closeLater(() => started.stop());
  return started;
}

/** A server of the test itself, which has not listened yet. @returns the URL that it listens at */
export async function newListener(server: Server, scheme: "http" | "https" = "http"): Promise<string> {
  const url = `${scheme}://127.0.0.1:${await listen(server)}`;
  closeLater(() => {
    server.close();
    (server as Partial<HttpServer>).closeAllConnections?.();
  });
  return url;
}

/** An empty folder. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "ugs-test-"));
  closeLater(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Opens something before the tests of a suite, and closes it after them.
 *
 * @returns what stands for it: each use is passed on to what was opened. @throws when it is used before the suite begins
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
      if (!opened) throw new Error(`${String(name)} was asked for before the suite has begun`);
      const value: unknown = Reflect.get(opened, name, opened);
      return typeof value === "function" ? value.bind(opened) : value;
    },
  });
}
