import { execFileSync } from "node:child_process";

/** Where a program is on the PATH; undefined when it is not there. */
export function onPath(program: string): string | undefined {
  try {
    return execFileSync("sh", ["-c", `command -v ${program}`], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}
