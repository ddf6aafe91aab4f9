import { spawn } from "node:child_process";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { runUgs } from "../../src/run.ts";
import { Interrupted } from "../../src/shell.ts";

/** What a run of `ugs` left. */
export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How `ugs` is run. */
export interface RunOptions {
  /** The environment, beside an empty folder for profiles. */
  readonly env?: { readonly [name: string]: string };
  /** What standard input has. Default: nothing. */
  readonly input?: string;
  /** What is typed on a terminal, in place of `input`. */
  readonly keys?: string;
  /** Whether standard input stays open. Default: it ends. */
  readonly isInputOpen?: boolean;
  /** Interrupts the run, as Ctrl-C does. */
  readonly interrupt?: AbortSignal;
  /** Is told what standard output gets, as it comes. */
  readonly onOutput?: (text: string) => void;
}

/** Runs `ugs` in this process. */
export async function ugs(
  args: readonly string[],
  { env, input = "", keys, isInputOpen = false, interrupt, onOutput }: RunOptions = {},
): Promise<Run> {
  const isTTY = keys !== undefined;
  const [stdin, stderr] = [Object.assign(new PassThrough(), { isTTY }), Object.assign(new PassThrough(), { isTTY })];
  const stdout = new PassThrough();
  stdin.write(keys ?? input);
  if (!isTTY && !isInputOpen) stdin.end();
  const controller = new AbortController();
  interrupt?.addEventListener("abort", () => controller.abort(new Interrupted("SIGINT")));
  if (onOutput) stdout.on("data", (chunk: Buffer) => onOutput(chunk.toString()));
  const said = [text(stdout), text(stderr)];
  const shell = { env: { XDG_CONFIG_HOME: newFolder(), ...env }, stdin, stdout, stderr, signal: controller.signal };
  const code = await runUgs(args, shell);
  stdout.end();
  stderr.end();
  const [out = "", err = ""] = await Promise.all(said);
  return { code, stdout: out, stderr: err };
}

/** Runs the `ugs` that is built, in a process of its own. */
export async function ugsBuilt(args: readonly string[], { env, input = "" }: RunOptions = {}): Promise<Run> {
  const { PATH = "" } = process.env;
  const child = spawn(`${ROOT}/dist/ugs.js`, args, { env: { PATH, XDG_CONFIG_HOME: newFolder(), ...env } });
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}
