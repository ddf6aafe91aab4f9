import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { waitFor } from "./wait.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** A command on a pseudo-terminal of its own, 80 columns wide. */
export interface TerminalSession {
  /** What the terminal was sent so far; lines end with `\n`. */
  screen(): string;
  /** Types keys; `\x03` is Ctrl-C. */
  type(keys: string): void;
  /** Resolves with the exit code of the command. */
  exited(): Promise<number | null>;
  /** Closes the terminal, which ends what runs on it. */
  close(): Promise<unknown>;
}

/** Runs a command on a terminal, by `script` of util-linux, with these settings alone. */
export function openTerminal(
  command: string,
  { env = {}, cwd = ROOT }: { env?: { readonly [name: string]: string }; cwd?: string } = {},
): TerminalSession {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn("script", ["-qefc", `stty cols 80 rows 24; exec ${command}`, "/dev/null"], {
    cwd,
    env: { PATH, HOME, TERM: "xterm", ...env },
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      text += chunk;
    });
  }
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  child.stdin.on("error", () => {});
  return {
    screen: () => text.replaceAll("\r\n", "\n"),
    type: (keys) => void child.stdin.write(keys),
    exited: () => ended,
    close: () => {
      child.kill("SIGTERM");
      return ended;
    },
  };
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

/** Waits until a process is gone; one that nobody has waited for yet counts as gone. */
export async function waitUntilGone(pid: number): Promise<void> {
  await waitFor(`process ${pid} is gone`, () => {
    try {
      return / [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8").slice(0, 200));
    } catch {
      return true;
    }
  });
}
