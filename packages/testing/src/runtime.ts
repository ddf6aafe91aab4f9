import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./process.ts";

/** What a server runs on, with every protocol. */
export type Runtime = "node" | "deno";

/** Every runtime that is supported with every protocol. */
export const RUNTIMES: readonly Runtime[] = ["node", "deno"];

/** What no process of ours may write. */
export const UNFORESEEN = /\b[A-Z]\w+Warning\b|[Uu]ncaught|[Uu]nhandled/;

/** The command that runs a Deno script of ours, up to its path. */
export function denoRun(flags: readonly string[] = ["-P"]): string[] {
  return [denoBinary(), "run", "--no-prompt", ...flags];
}

/** The Deno executable itself: signals to the npm package's launcher do not reach it. */
export function denoBinary(): string {
  const folder = join(ROOT, "node_modules/@deno");
  for (const name of readdirSync(folder)) {
    const path = join(folder, name, "deno");
    if (existsSync(path)) return path;
  }
  throw new Error("the npm package deno has no executable for this platform; run npm ci");
}
