import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./process.ts";

export type Runtime = "node" | "deno";

/** All supported runtimes. The service supports every protocol on each runtime. */
export const RUNTIMES: readonly Runtime[] = ["node", "deno"];

/** Matches warnings and uncaught errors in the output of a process. No process of this project may write them. */
export const UNFORESEEN = /\b[A-Z]\w+Warning\b|[Uu]ncaught|[Uu]nhandled/;

/** Returns the start of a command line that runs a Deno script. The path of the script must follow. */
export function denoRun(flags: readonly string[] = ["-P"]): string[] {
  return [denoBinary(), "run", "--no-prompt", ...flags];
}

/** Returns the path of the Deno executable. The launcher of the npm package would not forward signals to Deno. */
export function denoBinary(): string {
  const folder = join(ROOT, "node_modules/@deno");
  for (const name of readdirSync(folder)) {
    const path = join(folder, name, "deno");
    if (existsSync(path)) return path;
  }
  throw new Error("the npm package deno has no executable for this platform; run npm ci");
}
