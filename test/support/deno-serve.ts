import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { delimiter, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { denoBinary } from "./server.ts";
import { freePort, waitFor } from "./wait.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** A process of `npm run serve:deno`. */
export interface DenoServe {
  readonly url: string;
  readonly apiToken: string;
  /** Everything it has written so far. */
  output(): string;
  signal(signal: NodeJS.Signals): void;
  /** Resolves with its exit code; null when a signal ended it. */
  exited(): Promise<number | null>;
}

/**
 * Runs the npm script `serve:deno` on a free port, with two threads.
 *
 * @param env further settings; `API_TOKENS` has a token of `dev/Customer` already
 */
export async function launchDenoServe(env: { readonly [name: string]: string }): Promise<DenoServe> {
  const { scripts } = JSON.parse(readFileSync(`${ROOT}/package.json`, "utf8")) as {
    scripts: { [name: string]: string };
  };
  const port = await freePort();
  const apiToken = `test-${randomBytes(18).toString("base64url")}`;
  const path = [dirname(denoBinary()), process.env["PATH"]].join(delimiter);
  // The script ends in `exec`, so that signals reach Deno and not the shell.
  const child: ChildProcess = spawn("sh", ["-c", scripts["serve:deno"] ?? ""], {
    cwd: ROOT,
    env: {
      PATH: path,
      HOME: process.env["HOME"] ?? "",
      NO_COLOR: "1",
      DENO_JOBS: "2",
      PORT: String(port),
      API_TOKENS: `dev/Customer=${apiToken}`,
      ...env,
    },
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk: Buffer) => {
      text += chunk;
    });
  }
  const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  return {
    url: `http://127.0.0.1:${port}`,
    apiToken,
    output: () => text,
    signal: (signal) => void child.kill(signal),
    exited: () => ended,
  };
}

/** As `launchDenoServe`, and waits until every thread is ready. */
export async function startDenoServe(env: { readonly [name: string]: string }): Promise<DenoServe> {
  const served = await launchDenoServe(env);
  let ended = false;
  served.exited().then(() => {
    ended = true;
  });
  await waitFor("both threads of deno serve are ready", () => {
    if (ended) throw new Error(`deno serve ended:\n${served.output()}`);
    return (served.output().match(/"msg":"ready"/g) ?? []).length === 2 && served.output().includes("Listening");
  });
  return served;
}
