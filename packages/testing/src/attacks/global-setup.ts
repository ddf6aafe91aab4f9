import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { tableOf } from "./table.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** File for the rows of the table. */
    attackRows: string;
  }
}

/** Prints the table of attack costs at the end. */
export default function setup(project: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), "ugs-attacks-"));
  const file = join(folder, "rows");
  project.provide("attackRows", file);
  return () => {
    const table = tableOf(file);
    if (table !== undefined) console.log(`\n${table}\n`);
    rmSync(folder, { recursive: true, force: true });
  };
}
