import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Certificate } from "@user-group-service/testing/certificates";
import { forSuite } from "@user-group-service/testing/opened";
import { ROOT, type RunningProcess, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { denoRun, type Runtime, UNFORESEEN } from "@user-group-service/testing/runtime";
import { build } from "esbuild";
import { expect } from "vitest";

/** Limits of a port of its own. */
export interface OwnPortOptions {
  readonly tls?: Pick<Certificate, "certFile" | "keyFile"> | undefined;
  readonly maxConnections?: number;
  readonly deadSessionCheckMs?: number;
  readonly arrivalTimeoutMs?: number;
  readonly readTimeoutMs?: number;
  readonly openArrivalTimeoutMs?: number;
  readonly headerTimeoutMs?: number;
  readonly streams?: { readonly max?: number; readonly lifetimeMs?: number };
  /** Whose `X-Forwarded-For` names the client, whole. */
  readonly proxy?: string;
}

/** A port in a process of its own. */
export interface OwnPort extends Pick<RunningProcess, "pid" | "output" | "isRunning"> {
  readonly url: string;
  stop(): Promise<void>;
}

const ENTRY = `${ROOT}/packages/transport/test/support/own-port.ts`;

/** Starts a port with these limits. @param heapMib what the heap may grow to, in MiB */
async function startOwnPort(runtime: Runtime, options: OwnPortOptions, heapMib = 256): Promise<OwnPort> {
  const folder = mkdtempSync(join(tmpdir(), "ugs-port-"));
  const flags = `--max-old-space-size=${heapMib},--expose-gc`;
  let command: string[];
  if (runtime === "deno") command = [...denoRun(["-A", `--v8-flags=${flags}`]), ENTRY];
  else {
    const outfile = join(folder, "port.mjs");
    await build({ entryPoints: [ENTRY], bundle: true, platform: "node", format: "esm", outfile, logLevel: "warning" });
    command = [process.execPath, ...flags.split(","), outfile];
  }
  const tls = options.tls && { certFile: options.tls.certFile, keyFile: options.tls.keyFile };
  const port = startProcess([...command, JSON.stringify({ ...options, tls })]);
  const url = await waitUntilSaid(port, "the port listens", (output) => /listening on (\S+)/.exec(output)?.[1]);
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

/** A port of the transport alone for a suite. */
export function suitePort(runtime: Runtime, options: OwnPortOptions, heapMib?: number): OwnPort {
  return forSuite(
    () => startOwnPort(runtime, options, heapMib),
    async (port) => {
      expect(port.isRunning()).toBe(true);
      expect(port.output()).not.toMatch(UNFORESEEN);
      await port.stop();
    },
  );
}
