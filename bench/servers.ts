import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { denoRun } from "@user-group-service/testing/runtime";
import { freePort } from "@user-group-service/testing/wait";
import { linesOf } from "../test/support/server.ts";
import { cpuSeconds, SERVER_CORE } from "./cores.ts";
import type { Row } from "./rows.ts";
import { BUILD_FOLDER, type RuntimeInfo } from "./runtimes.ts";

/** A listening server that is pinned to the servers' core. */
export interface BenchServer {
  readonly row: Row;
  url(http: 1 | 2): string;
  /** Time from the start of the process until it listened, in milliseconds. */
  readonly startMs: number;
  /** Returns the CPU time so far, user and system, in seconds. */
  cpuSeconds(): number;
  /** Returns the peak resident memory since the last call of `forgetPeak`, in MiB. */
  peakMiB(): number;
  forgetPeak(): void;
  stop(): Promise<void>;
}

/** Starts a server and waits until it listens. @throws if the server exits before it listens */
export async function startServer(
  row: Row,
  { path }: RuntimeInfo,
  env: { readonly [name: string]: string },
): Promise<BenchServer> {
  const port = String(await freePort());
  const started = Date.now();
  const server = startProcess(["taskset", "-c", SERVER_CORE, ...commandOf(row, path)], {
    env: { NODE_ENV: "production", NO_COLOR: "1", PORT: port, ...env },
  });
  const { pid, exited, signal } = server;
  const log = linesOf(server.output);
  const said = await waitUntilSaid(server, `${row.key} listens`, () => log().find(({ msg }) => msg === "listening"));
  // The log lines of peers contain no time, so use the current time for peers.
  const { url, http2Url = url, time = new Date().toISOString() } = said as unknown as Listening;
  return {
    row,
    url: (http) => (http === 2 ? http2Url : url),
    startMs: Date.parse(time) - started,
    cpuSeconds: () => cpuSeconds(pid),
    peakMiB: () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024,
    forgetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, "5"),
    stop: async () => {
      signal("SIGKILL");
      await exited();
    },
  };
}

interface Listening {
  readonly url: string;
  readonly http2Url?: string;
  readonly time?: string;
}

function commandOf({ runtime, entry, storage }: Row, path: string): string[] {
  if (runtime === "go") return [path, entry];
  const file = entry.includes("/") ? entry : undefined;
  if (runtime === "deno")
    return [...denoRun([storage === "service" ? "-P" : "-A"]), file ?? `bench/servers/${entry}.ts`];
  return [path, file ?? join(BUILD_FOLDER, "servers", `${entry}.js`)];
}
