import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./process.ts";

/** A runtime of the server. */
export type Runtime = "node" | "deno";

/** All supported runtimes. Each serves every protocol. */
export const RUNTIMES: readonly Runtime[] = ["node", "deno"];

/** Output that no process of this project may write. */
export const UNFORESEEN = /\b[A-Z]\w+Warning\b|[Uu]ncaught|[Uu]nhandled/;

/** Command line that runs a Deno script, up to the script's path. */
export function denoRun(flags: readonly string[] = ["-P"]): string[] {
  return [denoBinary(), "run", "--no-prompt", ...flags];
}

/** Path of the Deno executable. The launcher of the npm package does not pass signals on to it. */
export function denoBinary(): string {
  const folder = join(ROOT, "node_modules/@deno");
  for (const name of readdirSync(folder)) {
    const path = join(folder, name, "deno");
    if (existsSync(path)) return path;
  }
  throw new Error("the npm package deno has no executable for this platform; run npm ci");
}
