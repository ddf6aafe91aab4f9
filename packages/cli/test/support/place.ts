import { existsSync, readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import type { RunningProcess } from "@user-group-service/testing/process";
import { expect } from "vitest";
import { adminOf, newName } from "../../../../test/support/admin.ts";
import { type Gate, type GateCall, newGate } from "./gate.ts";
import { asRoot, type Run, type RunOptions, startUgs, summaryOf, ugs } from "./ugs.ts";

/** The test groups. An export of these groups needs two pages, and an import needs three requests. */
export const GROUPS = Array.from({ length: 1_200 }, (_, i) => ({
  provided_id: `group-${String(i).padStart(4, "0")}`,
  name: `Group ${i}`,
  mapping: { "40": String(i) },
  properties: { seats: i },
}));

/** A new environment and a gate in front of the service. `ugs` sends calls to the gate, and the gate forwards them. */
export interface Place {
  readonly gate: Gate;
  readonly env: { readonly [name: string]: string };
  readonly environment: string;
  readonly folder: string;
  run(args: readonly string[], options?: RunOptions): Promise<Run>;
  /** Runs `ugs` with `--json`, and returns the summary in the last line of the output. */
  counts(args: readonly string[], options?: RunOptions): Promise<{ readonly [name: string]: unknown }>;
  start(args: readonly string[]): RunningProcess;
}

export async function newPlace(server: { readonly url: string }, groups: readonly object[] = []): Promise<Place> {
  const [gate, environment, folder] = [await newGate(server), newName(), newFolder()];
  await adminOf(server.url).createEnvironment({ environment: { name: environment } });
  const env = { ...asRoot(gate), UGS_ENV: environment };
  const run: Place["run"] = (args, options) => ugs(args, { ...options, env });
  if (groups.length > 0) expect((await run(["import", await fileOf(folder, groups)])).code).toBe(0);
  gate.calls.length = 0;
  const counts: Place["counts"] = async (args, options) => summaryOf(await run([...args, "--json"], options));
  return { gate, env, environment, folder, run, counts, start: (args) => startUgs(args, env) };
}

/** Writes groups to a JSON Lines file. */
export async function fileOf(folder: string, groups: readonly object[]): Promise<string> {
  const file = join(folder, "groups.jsonl");
  await writeFile(file, groups.map((group) => `${JSON.stringify(group)}\n`).join(""));
  return file;
}

/** Returns the calls of an RPC that reached the gate. */
export function callsOf({ calls }: Gate, name: string): GateCall[] {
  return calls.filter(({ rpc }) => rpc === name);
}

/** Delays the `nth` call of an RPC and all later calls of this RPC, until the test calls `letGo`. */
export function hold(gate: Gate, name: string, nth: number) {
  let letGo = () => {};
  const free = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  gate.before = async ({ rpc }) => {
    if (rpc === name && callsOf(gate, name).length >= nth) await free;
  };
  return { letGo, isReached: () => callsOf(gate, name).length >= nth };
}

/** Returns the text of a file without its first line. */
export async function bodyOf(path: string): Promise<string> {
  const text = await readFile(path, "utf8");
  return text.slice(text.indexOf("\n") + 1);
}

/** Parses the state file of a transfer. Returns undefined if the file does not exist. */
export function stateOf(path: string): { readonly [name: string]: unknown } | undefined {
  return existsSync(path)
    ? (JSON.parse(readFileSync(path, "utf8")) as { readonly [name: string]: unknown })
    : undefined;
}
