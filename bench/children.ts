import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable } from "node:stream";

const children = new Set<ChildProcessByStdio<null, Readable, null>>();

// However the benchmark ends, nothing that it started stays.
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

/** Starts a process on a core; it ends with this one at the latest. */
export function spawnOn(
  core: string,
  command: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): ChildProcessByStdio<null, Readable, null> {
  const child = spawn("taskset", ["-c", core, ...command], { env, stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}
