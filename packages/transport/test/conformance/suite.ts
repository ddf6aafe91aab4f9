import { execFileSync, spawn } from "node:child_process";
import { join, resolve } from "node:path";

const MODULE = "connectrpc.com/conformance";
const VERSION = "v1.0.7";

/** The maximum time for one run of the suite, in milliseconds. A run usually takes less than a minute. */
const MAX_RUN_MS = 8 * 60_000;

export interface Suite {
  readonly version: string;
  /** The path of the suite's definitions, a serialized FileDescriptorSet. */
  readonly descriptors: string;
  /**
   * Starts a server with `command`, once per configuration, and tests the server. Resolves to the output of the suite.
   */
  run(command: readonly string[], flags: readonly string[]): Promise<string>;
}

/** Installs the suite and its definitions with Go. The checksum database of Go verifies the module. */
export function installSuite(folder: string): Suite {
  const bin = resolve(folder, "bin");
  const env = { ...process.env, GOBIN: bin };
  const stdio: ["ignore", "pipe", "inherit"] = ["ignore", "pipe", "inherit"];
  execFileSync("go", ["install", `${MODULE}/cmd/connectconformance@${VERSION}`], { env, stdio });
  const module = execFileSync("go", ["mod", "download", "-json", `${MODULE}@${VERSION}`], { stdio, encoding: "utf8" });
  const { Dir } = JSON.parse(module) as { readonly Dir: string };
  const descriptors = resolve(folder, "conformance.binpb");
  execFileSync("node_modules/.bin/buf", ["build", Dir, "-o", descriptors, "--as-file-descriptor-set"], { stdio });
  return {
    version: VERSION,
    descriptors,
    run: (command, flags) => {
      const config = ["--mode", "server", "--conf", "packages/transport/test/conformance/config.yaml"];
      return outputOf(join(bin, "connectconformance"), [...config, ...flags, "--", ...command]);
    },
  };
}

/** Returns the output of a program, even if its exit code is not 0. @throws if the program does not exit in time */
function outputOf(program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolveWith, reject) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const timer = setTimeout(() => {
      child.kill("SIGINT");
      reject(new Error(`the conformance suite did not end within ${MAX_RUN_MS / 60_000} minutes:\n${output}`));
    }, MAX_RUN_MS);
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    child.once("error", reject);
    child.once("close", () => {
      clearTimeout(timer);
      resolveWith(output);
    });
  });
}
