import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tokenKey } from "../test/support/server.ts";
import type { Row } from "./rows.ts";
import type { RuntimeInfo } from "./runtimes.ts";
import { type BenchServer, startServer } from "./servers.ts";

export const API_TOKEN = "bench-c2VjcmV0LXRva2VuLW9mLXRoZS1iZW5jaA";

/**
 * Settings that give the service a long timeout for Redis. Peers have no timeout for Redis. If the timeout were short,
 * only the service would fail on a busy machine.
 */
export const PATIENT = { REDIS_TIMEOUT: "10s" };

/** A Redis that the servers read from: a single node, Sentinel or Cluster. */
interface Store {
  readonly url: string;
  stop(): Promise<void>;
}

export interface Stage {
  readonly store: Store;
  readonly folder: string;
  /** Starts a server. `onStage` stops the server if it still runs. */
  start(row: Row, settings?: { readonly [name: string]: string }): Promise<BenchServer>;
}

/** Runs `work` with a store. When `work` ends or fails, stops the servers and the store. */
export async function onStage<T>(
  runtimes: readonly RuntimeInfo[],
  store: Store,
  work: (stage: Stage) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "ugs-bench-"));
  const servers: BenchServer[] = [];
  try {
    const start: Stage["start"] = async (row, settings) => {
      const runtime = runtimes.find((info) => info.runtime === row.runtime);
      if (!runtime) throw new Error(`${row.key}: ${row.runtime} is not installed`);
      const server = await startServer(row, runtime, {
        HOST: "127.0.0.1",
        REDIS_URL: `${store.url}${row.database === 0 ? "" : `/${row.database}`}`,
        TOKEN_KEYS: tokenKey("bench", 7),
        API_TOKENS: `bench/Customer=${API_TOKEN}`,
        ...settings,
      });
      servers.push(server);
      return server;
    };
    return await work({ store, folder, start });
  } finally {
    for (const server of servers) await server.stop();
    await store.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
