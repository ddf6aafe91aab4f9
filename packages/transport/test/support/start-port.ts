import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Certificate } from "@user-group-service/testing/certificates";
import { ROOT, type RunningProcess, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { denoRun, type Runtime } from "@user-group-service/testing/runtime";
import { build } from "esbuild";

/**
 * The options of every port process. `tls` contains the files of the certificate; undefined if the port does not use
 * TLS.
 */
interface PortOptions {
  readonly tls?: Pick<Certificate, "certFile" | "keyFile"> | undefined;
}

export interface OwnPort extends Pick<RunningProcess, "pid" | "output" | "signal" | "isRunning"> {
  readonly url: string;
  stop(): Promise<void>;
}

interface PortProcess {
  readonly nodeFlags?: readonly string[];
  readonly denoFlags?: readonly string[];
  readonly env?: { readonly [name: string]: string };
}

/**
 * Starts a file of this folder as a process that opens a port. Passes the options to the process as JSON. Waits until
 * the port listens.
 */
export async function startPort(
  file: string,
  runtime: Runtime,
  options: PortOptions,
  { nodeFlags = [], denoFlags = [], env = {} }: PortProcess,
): Promise<OwnPort> {
  const folder = mkdtempSync(join(tmpdir(), "ugs-port-"));
  const entry = join(ROOT, "packages/transport/test/support", file);
  let command: string[];
  if (runtime === "deno") command = [...denoRun(["-A", ...denoFlags]), entry];
  else {
    const outfile = join(folder, "port.mjs");
    await build({ entryPoints: [entry], bundle: true, platform: "node", format: "esm", outfile, logLevel: "warning" });
    command = [process.execPath, ...nodeFlags, outfile];
  }
  const tls = options.tls && { certFile: options.tls.certFile, keyFile: options.tls.keyFile };
  const port = startProcess([...command, JSON.stringify({ ...options, tls })], { env });
  const url = await waitUntilSaid(port, "the port listens", (output) => /"url":"([^"]+)"/.exec(output)?.[1]);
  return {
    ...port,
    url,
    stop: async () => {
      port.signal("SIGKILL");
      await port.exited();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
