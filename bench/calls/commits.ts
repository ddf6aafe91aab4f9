import { execFileSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type Row, serviceRow } from "../rows.ts";
import { CONTROL } from "./differences.ts";

/**
 * Folder with the built commits. For each commit, the folder contains a clone of the repository with `node_modules`.
 */
const CLONES = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "user-group-service-bench");

/** A built commit, or the working files. */
export interface Built {
  readonly title: string;
  readonly dist: string;
}

export const HERE: Built = { title: "now", dist: "dist" };

/**
 * Builds a commit in a clone of the repository. If the commit was built before, returns the existing build.
 *
 * @throws if the commit does not exist or cannot be built
 */
export function builtAt(commit: string): Built {
  const sha = git("rev-parse", "--verify", "--end-of-options", `${commit}^{commit}`);
  const folder = join(CLONES, sha);
  const mark = join(folder, ".built");
  if (!existsSync(mark)) {
    console.error(`building ${commit} in ${folder}`);
    rmSync(folder, { recursive: true, force: true });
    git("clone", "--quiet", "--no-checkout", ".", folder);
    git("-C", folder, "checkout", "--quiet", sha);
    const options = { cwd: folder, stdio: "pipe" } as const;
    execFileSync("npm", ["ci", "--no-audit", "--no-fund"], options);
    execFileSync("npm", ["run", "build"], options);
    writeFileSync(mark, "");
  }
  return { title: git("rev-parse", "--short", sha), dist: join(folder, "dist") };
}

/**
 * Returns three rows: `base`, `base` again as the control, and `head`. The rows of `base` share a database. `head` has
 * another database, because the two commits may have different record formats.
 */
export function rowsOfCommits(base: Built, head: Built): Row[] {
  const row = (key: string, title: string, { dist }: Built, database: number) =>
    serviceRow("node", { key, title, entry: join(dist, "main.js"), database });
  return [
    row("service", base.title, base, 0),
    row(CONTROL, `${base.title}: control`, base, 0),
    row("head", head.title, head, 1),
  ];
}

function git(...args: readonly string[]): string {
  return execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
}
