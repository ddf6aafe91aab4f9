import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { denoBinary, type Runtime } from "./server.ts";
import { waitFor } from "./wait.ts";

/** Limits of a port of its own. */
export interface OwnPortOptions {
  readonly tls?: { readonly certFile: string; readonly keyFile: string } | undefined;
  readonly maxConnections?: number;
  readonly deadLookMs?: number;
  readonly arrivalTimeoutMs?: number;
  readonly readTimeoutMs?: number;
  readonly streams?: { readonly max?: number; readonly maxOfConnection?: number; readonly lifetimeMs?: number };
}

/** A port in a process of its own. */
export interface OwnPort {
  readonly url: string;
  readonly pid: number;
  /** Everything that it wrote. */
  output(): string;
  isRunning(): boolean;
  stop(): Promise<void>;
}

const ENTRY = fileURLToPath(new URL("./own-port.ts", import.meta.url));

/** Starts a port with these limits. @param heapMib what the heap may grow to, in MiB */
export async function startOwnPort(runtime: Runtime, options: OwnPortOptions, heapMib = 256): Promise<OwnPort> {
  const folder = mkdtempSync(join(tmpdir(), "ugs-port-"));
  const flags = `--max-old-space-size=${heapMib},--expose-gc`;
  let command: [string, string[]];
  if (runtime === "deno") command = [denoBinary(), ["run", "-A", `--v8-flags=${flags}`, ENTRY]];
  else {
    const outfile = join(folder, "port.mjs");
    await build({ entryPoints: [ENTRY], bundle: true, platform: "node", format: "esm", outfile, logLevel: "warning" });
    command = [process.execPath, [...flags.split(","), outfile]];
  }
  const child: ChildProcess = spawn(command[0], [...command[1], JSON.stringify(options)], { stdio: "pipe" });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk: Buffer) => {
      text += chunk;
    });
  }
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const url = await waitFor("the port listens", () => {
    if (child.exitCode !== null) throw new Error(`it ended:\n${text}`);
    return /listening on (\S+)/.exec(text)?.[1];
  });
  return {
    url,
    pid: child.pid ?? 0,
    output: () => text,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    stop: async () => {
      child.kill("SIGKILL");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
