import { join } from "node:path";
import { ROOT } from "@user-group-service/testing/process";
import { pythonPrograms } from "./python.ts";

const FOLDER = join(ROOT, "test/support/grpcio");
const REQUIREMENTS = join(FOLDER, "requirements.txt");

/** Path of a script that sends bursts of calls. The script documents its arguments. */
export const BURST = join(FOLDER, "burst.py");

/** Path of a script that calls several servers until its standard input ends. The script documents its arguments. */
export const STEADY = join(FOLDER, "steady.py");

/**
 * Returns the path of a Python with grpcio. Installs grpcio on first use, and again if the required version changes.
 * Like the clients of C++, Ruby and PHP, grpcio uses grpc-core.
 *
 * @returns undefined if Python 3 is missing. @throws if Python 3 is missing and the environment variable CI is "true"
 */
export function pythonWithGrpcio(): string | undefined {
  const programs = pythonPrograms("grpcio", REQUIREMENTS, "the tests of clients on grpc-core are");
  return programs && join(programs, "python");
}
