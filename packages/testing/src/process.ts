import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { waitFor } from "./wait.ts";

/** Root folder of the repository. This file, or the bundle that contains it, is in a folder below the root. */
export const ROOT = rootAbove(dirname(fileURLToPath(import.meta.url)));

function rootAbove(folder: string): string {
  if (existsSync(join(folder, "package-lock.json"))) return folder;
  if (folder === dirname(folder)) throw new Error("not in the repository");
  return rootAbove(dirname(folder));
}

export interface RunningProcess {
  readonly pid: number;
  /** Returns all standard output and standard error so far. */
  output(): string;
  isRunning(): boolean;
  type(text: string): void;
  endInput(): void;
  signal(signal: NodeJS.Signals): void;
  /** Resolves with the exit code, or with null if a signal ended the process. */
  exited(): Promise<number | null>;
  /**
   * Sends SIGTERM. If the process still runs after 30 s, sends SIGKILL. Resolves with the exit code, or with null if a
   * signal ended the process.
   */
  stop(): Promise<number | null>;
}

export interface ProcessOptions {
  /** Environment variables, in addition to PATH and HOME. */
  readonly env?: { readonly [name: string]: string };
  readonly cwd?: string;
}

const running = new Set<ChildProcess>();

// Vitest ends a worker with SIGTERM. The worker must then exit, because only its `exit` event kills the processes that
// the worker has started.
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
process.once("SIGTERM", () => process.exit(143));

/** Starts a process that inherits only PATH and HOME from the environment. */
export function startProcess(
  [program = "", ...args]: readonly string[],
  { env, cwd = ROOT }: ProcessOptions = {},
): RunningProcess {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(program, args, {
    cwd,
    env: { PATH, HOME, ...env },
    stdio: "pipe",
  });
  running.add(child);
  child.once("exit", () => running.delete(child));
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    // A chunk can end within a character, so the stream must decode the chunks.
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
  }
  child.stdin.on("error", () => {});
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    pid: child.pid ?? 0,
    output: () => text,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    type: (keys) => void child.stdin.write(keys),
    endInput: () => void child.stdin.end(),
    signal: (signal) => void child.kill(signal),
    exited: () => ended,
    stop: async () => {
      // A process that SIGSTOP has stopped does not react to SIGTERM.
      child.kill("SIGCONT");
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 30_000);
      const code = await ended;
      clearTimeout(timer);
      return code;
    },
  };
}

/**
 * Returns environment variables for a Node process. On each SIGUSR2, the process moves its own clock ahead by `stepMs`,
 * and prints the total difference to the real clock in milliseconds.
 */
export function movableClock(stepMs: number): { readonly [name: string]: string } {
  const script = `${ROOT}/packages/testing/src/move-clock.js`;
  return { NODE_OPTIONS: `--import=${script}`, MOVE_CLOCK_MS: String(stepMs) };
}

/**
 * Waits until `look` returns a truthy value for the output of a process, and returns this value. Before
 * `waitUntilSaid` throws an error, it kills the process.
 *
 * @throws after the timeout of `waitFor`, or if the process exits before `look` returns a truthy value
 */
export async function waitUntilSaid<T>(
  { isRunning, output, signal }: RunningProcess,
  what: string,
  look: (output: string) => T,
): Promise<NonNullable<T>> {
  try {
    return await waitFor(what, () => {
      const wasRunning = isRunning();
      const found = look(output());
      if (!found && !wasRunning) throw new Error(`the process exited before ${what}:\n${output()}`);
      return found;
    });
  } catch (error) {
    signal("SIGKILL");
    throw error;
  }
}

export function descendants(pid: number): number[] {
  let children: number[];
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
  return children.flatMap((child) => [child, ...descendants(child)]);
}

/** Waits until a process has exited. A zombie counts as exited. */
export async function waitUntilGone(pid: number): Promise<void> {
  await waitFor(`process ${pid} has exited`, () => !isRunning(pid));
}

/** Returns whether a process is running. A zombie does not count as running. */
export function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  } catch {
    return false;
  }
}
