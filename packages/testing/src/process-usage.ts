import { readdirSync, readFileSync } from "node:fs";
import { isRunning, ROOT, type RunningProcess } from "./process.ts";
import type { Runtime } from "./runtime.ts";
import { pause, waitFor } from "./wait.ts";

/** Linux counts CPU time in hundredths of a second, whatever its clock. */
const TICK_MS = 10;

const COLLECTOR = `${ROOT}/packages/testing/src/collect.js`;

/**
 * Has the C library give memory back to the system when it is freed, instead of keeping it for the next request: by
 * itself it raises these thresholds up to 32 and 64 MiB for every thread's heap, as large blocks are freed.
 */
const FRUGAL_MALLOC = { MALLOC_ARENA_MAX: "1", MALLOC_MMAP_THRESHOLD_: "131072", MALLOC_TRIM_THRESHOLD_: "131072" };

/** Further settings of a process, and further flags of Deno. */
interface Collectable {
  readonly env: { readonly [name: string]: string };
  readonly denoFlags?: readonly string[];
}

/** How to start a server whose garbage can be collected from outside, and whose freed memory is not resident any more. */
export function collectable(runtime: Runtime): Collectable {
  if (runtime === "node") return { env: { ...FRUGAL_MALLOC, NODE_OPTIONS: `--import=${COLLECTOR}` } };
  return { env: FRUGAL_MALLOC, denoFlags: [`--preload=${COLLECTOR}`, "--v8-flags=--expose-gc"] };
}

/** The CPU time of a process and its threads, in milliseconds. @throws when it has ended */
export function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The name before it is in brackets and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** The memory that a process has resident, in bytes. @throws when it has ended */
export function residentBytesOf(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  if (kib === undefined) throw new Error(`process ${pid} has ended`);
  return Number(kib) * 1024;
}

/** How many files and sockets a process has open. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Waits until a process is nearly idle: whatever it was sent, it has dealt with. */
export async function idle(pid: number, timeoutMs = 120_000): Promise<void> {
  let last = cpuMsOf(pid);
  await waitFor(
    "the server is idle",
    async () => {
      await pause(250);
      const now = cpuMsOf(pid);
      const isIdle = now - last <= 4 * TICK_MS;
      last = now;
      return isIdle;
    },
    timeoutMs,
  );
}

/**
 * What a server has resident once its garbage is collected, in bytes, without the room that its heap has to spare: V8
 * keeps some 50 MiB for what it was once asked for. It must have been started as `collectable` says.
 */
export async function heldBytesOf(server: Pick<RunningProcess, "pid" | "output" | "signal">): Promise<number> {
  const collections = () => [...server.output().matchAll(/"msg":"collected","spareBytes":(\d+)}/g)];
  const before = collections().length;
  server.signal("SIGUSR2");
  await waitFor("the garbage is collected", () => !isRunning(server.pid) || collections().length > before, 120_000);
  const spareBytes = Number(collections().at(-1)?.[1] ?? 0);
  // What is freed is given back to the system a little later.
  let least = residentBytesOf(server.pid);
  for (let i = 0; i < 4; i++) {
    await pause(100);
    least = Math.min(least, residentBytesOf(server.pid));
  }
  return least - spareBytes;
}
