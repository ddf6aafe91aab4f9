import { join } from "node:path";
import { ROOT } from "@user-group-service/testing/process";
import { pythonPrograms } from "./python.ts";

const FOLDER = join(ROOT, "test/support/grpcio");
const REQUIREMENTS = join(FOLDER, "requirements.txt");

/** A script that sends bursts of calls. It documents its arguments. */
export const BURST = join(FOLDER, "burst.py");

/** A script that calls several servers until its standard input ends. It documents its arguments. */
export const STEADY = join(FOLDER, "steady.py");

/**
 * Path of a Python with grpcio, which uses grpc-core like the clients of C++, Ruby and PHP. Installs it on first use
 * and after a version change.
 *
 * @returns undefined without Python 3. @throws without Python 3 if CI is true
 */
export function pythonWithGrpcio(): string | undefined {
  const programs = pythonPrograms("grpcio", REQUIREMENTS, "the tests of clients on grpc-core are");
  return programs && join(programs, "python");
}
