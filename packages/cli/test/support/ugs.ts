import { spawn } from "node:child_process";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, type RunningProcess, startProcess } from "@user-group-service/testing/process";
import { expect } from "vitest";
import { ADMIN_TOKEN, newName } from "../../../../test/support/admin.ts";
import { runUgs } from "../../src/run.ts";
import { Interrupted } from "../../src/shell.ts";

export const UGS = `${ROOT}/dist/ugs.js`;

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** Environment variables. Default: only `XDG_CONFIG_HOME`, set to an empty folder. */
  readonly env?: { readonly [name: string]: string };
  /** Standard input. Default: empty. */
  readonly input?: string;
  /** The keys that a user types on a terminal. If `keys` is set, `input` has no effect. */
  readonly keys?: string;
  /** The width of the terminal on standard output. If undefined, standard output is not a terminal. */
  readonly columns?: number;
  /** Whether standard input stays open after `input`. Default: no. */
  readonly isInputOpen?: boolean;
  /** Interrupts the run, as Ctrl-C does. */
  readonly interrupt?: AbortSignal;
  /** Receives standard output while `ugs` runs. */
  readonly onOutput?: (text: string) => void;
}

/** Runs `ugs` inside of this process. */
export async function ugs(
  args: readonly string[],
  { env, input = "", keys, columns, isInputOpen = false, interrupt, onOutput }: RunOptions = {},
): Promise<Run> {
  const isTTY = keys !== undefined;
  const [stdin, stderr] = [Object.assign(new PassThrough(), { isTTY }), Object.assign(new PassThrough(), { isTTY })];
  const stdout = Object.assign(new PassThrough(), columns !== undefined && { isTTY: true, columns });
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

export function ugsBuilt(args: readonly string[], options?: RunOptions): Promise<Run> {
  return runProgram([UGS, ...args], options);
}

/** Runs a program in a separate process, with an empty folder of profiles. */
export async function runProgram(
  [program = "", ...args]: readonly string[],
  { env, input = "" }: RunOptions = {},
): Promise<Run> {
  const { PATH = "" } = process.env;
  const child = spawn(program, args, { env: { PATH, XDG_CONFIG_HOME: newFolder(), ...env } });
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}

/** Starts the built `ugs` in a separate process. The process is killed at the end of the test. */
export function startUgs(args: readonly string[], env: RunOptions["env"]): RunningProcess {
  return newProcess(startProcess([UGS, ...args], { env: { XDG_CONFIG_HOME: newFolder(), ...env } }));
}

/**
 * Returns functions that run `ugs` with a token. Each function takes a command line, and splits the command line at
 * spaces.
 */
export function usersOf(server: { readonly url: string }) {
  const as =
    (token: string) =>
    (args: string, options: RunOptions = {}) =>
      ugs(args.split(" "), { ...options, env: { UGS_URL: server.url, UGS_TOKEN: token, ...options.env } });
  const root = as(ADMIN_TOKEN);
  /** Creates an environment with an API token of role `admin` and name `operator`. */
  async function newEnvironment() {
    const name = `${newName()}/Testing`;
    expect((await root(`env create ${name}`)).code).toBe(0);
    const token = (await root(`token create --env ${name} --role admin --name operator`)).stdout.trim();
    return { name, token, admin: as(token) };
  }
  return { as, root, newEnvironment };
}

/** Returns the variables that make `ugs` use the server as root. */
export function asRoot({ url }: { readonly url: string }) {
  return { UGS_URL: url, UGS_TOKEN: ADMIN_TOKEN };
}

export function linesIn(said: string): string[] {
  return said.trimEnd().split("\n");
}

export function jsonLinesIn<T = unknown>(said: string): T[] {
  return linesIn(said).map((line) => JSON.parse(line) as T);
}

/** Matches a time in the output of `ugs`. */
export const TIME = "\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\dZ";

/** Returns the summary in the last line of the `--json` output of a transfer. */
export function summaryOf({ stdout, stderr }: Run): { readonly [name: string]: unknown } {
  const last = linesIn(stdout).at(-1) ?? "";
  expect(last, stderr).toMatch(/^\{"summary"/);
  return (JSON.parse(last) as { summary: { [name: string]: unknown } }).summary;
}
