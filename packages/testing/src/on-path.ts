import { execFileSync } from "node:child_process";

/** Path of a program on the PATH; undefined if it is missing. */
export function onPath(program: string): string | undefined {
  try {
    return execFileSync("sh", ["-c", `command -v ${program}`], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}

/**
 * Path of a program that some tests need. If it is missing, prints that these tests are skipped.
 *
 * @param tests subject and verb of the message, such as "the tests in a browser are"
 * @throws if it is missing and CI is true
 */
export function orLeaveOut(program: string, tests: string): string | undefined {
  const path = onPath(program);
  if (path !== undefined) return path;
  const text = `${program} is not on the PATH: ${tests} SKIPPED`;
  if (process.env["CI"] === "true") throw new Error(`${text}. With CI=true no test may be skipped`);
  console.warn(`\n*** ${text} ***\n`);
  return undefined;
}
