import { execFileSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type Row, serviceRow } from "../rows.ts";
import { CONTROL } from "./differences.ts";

/** Where clones of the repository are kept, each with what `npm ci` installs. */
const CLONES = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "user-group-service-bench");

/** A commit that is built, or the files that are here. */
export interface Built {
  /** As tables name it. */
  readonly title: string;
  /** The folder of the bundle. */
  readonly dist: string;
}

/** The files as they are here, which the benchmark has built. */
export const HERE: Built = { title: "now", dist: "dist" };

/** Builds a commit in a clone, once. @throws when there is no such commit, or it cannot be built */
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
 * Two commits as rows: the first, the first once more, and the second. Each has a database of its own, for it may keep
 * records otherwise.
 */
export function rowsOfCommits(base: Built, head: Built): Row[] {
  const row = (key: string, title: string, { dist }: Built, database: number) =>
    serviceRow("node", { key, title, entry: join(dist, "main.js"), database });
  return [
    row("service", base.title, base, 0),
    row(CONTROL, `${base.title}: the same once more`, base, 0),
    row("head", head.title, head, 1),
  ];
}

function git(...args: readonly string[]): string {
  return execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
}
