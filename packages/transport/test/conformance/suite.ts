import { execFileSync, spawn } from "node:child_process";
import { join, resolve } from "node:path";

const MODULE = "connectrpc.com/conformance";
const VERSION = "v1.0.7";

/** How long the suite may take for one server, in milliseconds. It takes less than a minute. */
const MAX_RUN_MS = 8 * 60_000;

/** The official conformance suite, as it is installed. */
export interface Suite {
  readonly version: string;
  /** Its own definitions, as a serialized FileDescriptorSet. */
  readonly descriptors: string;
  /** Tests a server that this command starts, once for each configuration. Resolves with what it printed. */
  run(command: readonly string[], flags: readonly string[]): Promise<string>;
}

/**
 * Installs the suite with Go, and takes its definitions from the same module.
 * Go's checksum database vouches for both.
 *
 * @param folder where both go
 */
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

/** What a program prints; its exit code says no more than that. @throws when it does not end in time */
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
