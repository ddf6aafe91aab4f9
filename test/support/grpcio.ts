import { join } from "node:path";
import { ROOT } from "@user-group-service/testing/process";
import { pythonPrograms } from "./python.ts";

const FOLDER = join(ROOT, "test/support/grpcio");
const REQUIREMENTS = join(FOLDER, "requirements.txt");

/** The script that sends bursts of calls; it says itself what its arguments are. */
export const BURST = join(FOLDER, "burst.py");

/** The script that makes calls to several servers until its standard input ends; it says itself what its arguments are. */
export const STEADY = join(FOLDER, "steady.py");

/**
 * The Python of an environment that has grpcio, which is built on grpc-core as the clients of C++, Ruby and PHP are. It is
 * made when it is first asked for, and again when other versions are required.
 *
 * @returns undefined where there is no Python 3. @throws there in continuous integration
 */
export function pythonWithGrpcio(): string | undefined {
  const programs = pythonPrograms("grpcio", REQUIREMENTS, "the clients on grpc-core are");
  return programs && join(programs, "python");
}
