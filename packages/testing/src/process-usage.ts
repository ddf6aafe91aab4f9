import { readdirSync, readFileSync } from "node:fs";
import { isRunning, ROOT, type RunningProcess } from "./process.ts";
import type { Runtime } from "./runtime.ts";
import { pause, waitFor } from "./wait.ts";

/** Duration of a clock tick, in milliseconds. CPU times in /proc are numbers of clock ticks. */
const TICK_MS = 10;

const COLLECTOR = `${ROOT}/packages/testing/src/collect.js`;

/**
 * Settings that make glibc return freed memory to the system. Without these settings, when a process frees large
 * blocks, glibc raises the mmap threshold up to 32 MiB and the trim threshold up to 64 MiB. Each arena then keeps freed
 * memory below these thresholds.
 */
const FRUGAL_MALLOC = { MALLOC_ARENA_MAX: "1", MALLOC_MMAP_THRESHOLD_: "131072", MALLOC_TRIM_THRESHOLD_: "131072" };

interface Collectable {
  readonly env: { readonly [name: string]: string };
  readonly denoFlags?: readonly string[];
}

/**
 * Returns the settings of a server that `heldBytesOf` can measure. The server collects garbage on SIGUSR2, and returns
 * freed memory to the system.
 */
export function collectable(runtime: Runtime): Collectable {
  if (runtime === "node") return { env: { ...FRUGAL_MALLOC, NODE_OPTIONS: `--import=${COLLECTOR}` } };
  return { env: FRUGAL_MALLOC, denoFlags: [`--preload=${COLLECTOR}`, "--v8-flags=--expose-gc"] };
}

/** Returns the CPU time that all threads of a process have used, in milliseconds. @throws if the process has exited */
export function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The program's name is in parentheses. The name can contain any character, including parentheses.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Returns the resident memory of a process, in bytes. @throws if the process has exited */
export function residentBytesOf(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  if (kib === undefined) throw new Error(`process ${pid} has exited`);
  return Number(kib) * 1024;
}

export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/**
 * Waits until a process uses almost no CPU time. The test can then assume that the process has processed all its input.
 */
export async function idle(pid: number): Promise<void> {
  let last = cpuMsOf(pid);
  await waitFor("the server is idle", async () => {
    await pause(250);
    const now = cpuMsOf(pid);
    const isIdle = now - last <= 4 * TICK_MS;
    last = now;
    return isIdle;
  });
}

/**
 * Starts a garbage collection in a server, and returns the server's resident memory in bytes. The result excludes
 * unused heap, because V8 keeps about 50 MiB of unused heap. The server must have been started with the settings of
 * `collectable`.
 */
export async function heldBytesOf(server: Pick<RunningProcess, "pid" | "output" | "signal">): Promise<number> {
  const collections = () => [...server.output().matchAll(/"msg":"collected","spareBytes":(\d+)}/g)];
  const before = collections().length;
  server.signal("SIGUSR2");
  await waitFor("the garbage collection has run", () => !isRunning(server.pid) || collections().length > before);
  const spareBytes = Number(collections().at(-1)?.[1] ?? 0);
  // After the garbage collection, some time passes until the runtime returns freed memory to the system. So the memory
  // is measured several times, and the lowest value counts.
  let least = residentBytesOf(server.pid);
  for (let i = 0; i < 4; i++) {
    await pause(100);
    least = Math.min(least, residentBytesOf(server.pid));
  }
  return least - spareBytes;
}
