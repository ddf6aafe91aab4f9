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

/** The `ugs` that is built. */
export const UGS = `${ROOT}/dist/ugs.js`;

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
  /** The width of standard output as a terminal. Default: it is not a terminal. */
  readonly columns?: number;
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

/** Runs the `ugs` that is built, in a process of its own. */
export function ugsBuilt(args: readonly string[], options?: RunOptions): Promise<Run> {
  return runProgram([UGS, ...args], options);
}

/** Runs a program in a process of its own, with an empty folder for profiles. */
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

/** Starts the `ugs` that is built, likewise; it ends with the test. */
export function startUgs(args: readonly string[], env: RunOptions["env"]): RunningProcess {
  return newProcess(startProcess([UGS, ...args], { env: { XDG_CONFIG_HOME: newFolder(), ...env } }));
}

/**
 * Who runs `ugs` of a server: the bearer of a token, and root. They are given a command line whose words have no spaces.
 */
export function usersOf(server: { readonly url: string }) {
  const as =
    (token: string) =>
    (args: string, options: RunOptions = {}) =>
      ugs(args.split(" "), { ...options, env: { UGS_URL: server.url, UGS_TOKEN: token, ...options.env } });
  const root = as(ADMIN_TOKEN);
  /** A new environment, with a token of role `admin`, whose bearer is called `operator`. */
  async function newEnvironment() {
    const name = `${newName()}/Testing`;
    expect((await root(`env create ${name}`)).code).toBe(0);
    const token = (await root(`token create --env ${name} --role admin --name operator`)).stdout.trim();
    return { name, token, admin: as(token) };
  }
  return { as, root, newEnvironment };
}

/** The environment for root of a server. */
export function asRoot({ url }: { readonly url: string }) {
  return { UGS_URL: url, UGS_TOKEN: ADMIN_TOKEN };
}

/** The lines of what was said. */
export function linesIn(said: string): string[] {
  return said.trimEnd().split("\n");
}

/** Lines of JSON, read. */
export function jsonLinesIn<T = unknown>(said: string): T[] {
  return linesIn(said).map((line) => JSON.parse(line) as T);
}

/** A time as `ugs` writes it. */
export const TIME = "\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\dZ";

/** What `--json` says at its end. */
export function summaryOf({ stdout, stderr }: Run): { readonly [name: string]: unknown } {
  const last = linesIn(stdout).at(-1) ?? "";
  expect(last, stderr).toMatch(/^\{"summary"/);
  return (JSON.parse(last) as { summary: { [name: string]: unknown } }).summary;
}
