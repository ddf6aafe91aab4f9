import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { waitFor } from "./wait.ts";

/** The root of the repository: a folder above this file, or above what it is bundled into. */
export const ROOT = rootAbove(dirname(fileURLToPath(import.meta.url)));

function rootAbove(folder: string): string {
  if (existsSync(join(folder, "package-lock.json"))) return folder;
  if (folder === dirname(folder)) throw new Error("this is not in the repository");
  return rootAbove(dirname(folder));
}

/** A process that a test has started. */
export interface RunningProcess {
  readonly pid: number;
  /** Everything it has written to standard output and standard error so far. */
  output(): string;
  isRunning(): boolean;
  /** Writes to its standard input. */
  type(text: string): void;
  /** Ends its standard input. */
  endInput(): void;
  signal(signal: NodeJS.Signals): void;
  /** Resolves with its exit code; null when a signal ended it. */
  exited(): Promise<number | null>;
  /** SIGTERM, and SIGKILL if that does not end it within 30 s; resolves with the exit code. */
  stop(): Promise<number | null>;
}

/** Where and with what a process starts. */
export interface ProcessOptions {
  /** The settings that it has, besides the PATH and the home folder. */
  readonly env?: { readonly [name: string]: string };
  /** Default: the root of the repository. */
  readonly cwd?: string;
}

const running = new Set<ChildProcess>();

// Vitest ends the processes of its tests by SIGTERM. Servers that they share, and all of an interrupted run, end with them.
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
process.once("SIGTERM", () => process.exit(143));

/** Starts a process whose environment is what is given here, and nothing of the test's own. */
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
    // A character may come in two pieces.
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
      // One that is stopped hears no SIGTERM.
      child.kill("SIGCONT");
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 30_000);
      const code = await ended;
      clearTimeout(timer);
      return code;
    },
  };
}

/** The environment of a process on Node whose clock each SIGUSR2 moves on by so much; then it says how far it is ahead. */
export function movableClock(stepMs: number): { readonly [name: string]: string } {
  const script = `${ROOT}/packages/testing/src/move-clock.js`;
  return { NODE_OPTIONS: `--import=${script}`, MOVE_CLOCK_MS: String(stepMs) };
}

/** Waits until a process has written what is looked for; ends it when that does not come. @throws when it ends before */
export async function waitUntilSaid<T>(
  { isRunning, output, signal }: RunningProcess,
  what: string,
  look: (output: string) => T,
): Promise<NonNullable<T>> {
  try {
    return await waitFor(what, () => {
      const wasRunning = isRunning();
      const found = look(output());
      if (!found && !wasRunning) throw new Error(`the process ended before ${what}:\n${output()}`);
      return found;
    });
  } catch (error) {
    signal("SIGKILL");
    throw error;
  }
}

/** The processes that descend from one, itself left out. */
export function descendants(pid: number): number[] {
  let children: number[];
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
  return children.flatMap((child) => [child, ...descendants(child)]);
}

/** Waits until a process is gone; one that has ended and was not waited for counts as gone. */
export async function waitUntilGone(pid: number): Promise<void> {
  await waitFor(`process ${pid} is gone`, () => !isRunning(pid));
}

/** Whether a process runs; one that has ended and was not waited for does not. */
export function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  } catch {
    return false;
  }
}
