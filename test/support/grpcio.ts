import { join } from "node:path";
import { ROOT } from "@user-group-service/testing/process";
import { pythonPrograms } from "./python.ts";

const FOLDER = join(ROOT, "test/support/grpcio");
const REQUIREMENTS = join(FOLDER, "requirements.txt");

/** Path of a script that sends bursts of calls. For its arguments, see the comment at the start of the script. */
export const BURST = join(FOLDER, "burst.py");

/**
 * Path of a script that calls several servers until the standard input of the script ends. For its arguments, see the
 * comment at the start of the script.
 */
export const STEADY = join(FOLDER, "steady.py");

/**
 * Returns the path of a Python that can import grpcio. Installs grpcio on first use, and again if requirements.txt has
 * changed. grpcio is based on grpc-core, like the gRPC clients for C++, Ruby and PHP.
 *
 * @returns undefined if Python 3 is missing and the environment variable CI is not "true"
 * @throws if Python 3 is missing and the environment variable CI is "true"
 */
export function pythonWithGrpcio(): string | undefined {
  const programs = pythonPrograms("grpcio", REQUIREMENTS, "the tests of clients on grpc-core are");
  return programs && join(programs, "python");
}
