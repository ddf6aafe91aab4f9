import { execFileSync } from "node:child_process";

/** Returns the path of a program. Undefined if the program is not on the PATH. */
export function onPath(program: string): string | undefined {
  try {
    return execFileSync("sh", ["-c", `command -v ${program}`], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}

/**
 * Returns the path of a program that some tests need. If the program is missing, prints that these tests are skipped,
 * and returns undefined.
 *
 * @param tests the beginning of the message, such as "the tests in a browser are"
 * @throws if the program is missing and the environment variable CI is "true"
 */
export function orLeaveOut(program: string, tests: string): string | undefined {
  const path = onPath(program);
  if (path !== undefined) return path;
  const text = `${program} is not on the PATH: ${tests} SKIPPED`;
  if (process.env["CI"] === "true") throw new Error(`${text}. With CI=true no test may be skipped`);
  console.warn(`\n*** ${text} ***\n`);
  return undefined;
}
