import { execFileSync } from "node:child_process";

/** Where a program is on the PATH; undefined when it is not there. */
export function onPath(program: string): string | undefined {
  try {
    return execFileSync("sh", ["-c", `command -v ${program}`], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}

/**
 * Where a program is on the PATH that some tests need; when it is not there, says that they are left out.
 *
 * @param tests what is left out, with its verb
 * @throws where continuous integration runs the tests, which is to leave out nothing
 */
export function orLeaveOut(program: string, tests: string): string | undefined {
  const path = onPath(program);
  if (path !== undefined) return path;
  const text = `${program} is not on the PATH: ${tests} LEFT OUT`;
  if (process.env["CI"] === "true") throw new Error(`${text}, which CI does not allow`);
  console.warn(`\n*** ${text} ***\n`);
  return undefined;
}
