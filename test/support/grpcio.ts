import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { orLeaveOut } from "./on-path.ts";
import { ROOT } from "./process.ts";

const FOLDER = join(ROOT, "test/support/grpcio");
const REQUIREMENTS = join(FOLDER, "requirements.txt");

/** The script that sends bursts of calls; it says itself what its arguments are. */
export const BURST = join(FOLDER, "burst.py");

/**
 * The Python of an environment that has grpcio, which is built on grpc-core as the clients of C++, Ruby and PHP are. It is
 * made when it is first asked for, and again when other versions are required.
 *
 * @returns undefined where there is no Python 3. @throws there in continuous integration
 */
export function pythonWithGrpcio(): string | undefined {
  const python = orLeaveOut("python3", "the clients on grpc-core are");
  if (python === undefined) return undefined;
  const folder = join(ROOT, "node_modules/.cache/grpcio");
  const installed = join(folder, "requirements.txt");
  if (!existsSync(installed) || readFileSync(installed, "utf8") !== readFileSync(REQUIREMENTS, "utf8")) {
    rmSync(folder, { recursive: true, force: true });
    execFileSync(python, ["-m", "venv", folder], { stdio: "inherit" });
    execFileSync(join(folder, "bin/pip"), ["install", "--quiet", "--requirement", REQUIREMENTS], { stdio: "inherit" });
    // Comes last, so that an installation that was broken off is made again.
    execFileSync("cp", [REQUIREMENTS, installed]);
  }
  return join(folder, "bin/python");
}
