import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { waitFor } from "./wait.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** What a server runs on. */
export type Runtime = "node" | "deno";

/** Every runtime that the service supports. */
export const RUNTIMES: readonly Runtime[] = ["node", "deno"];

/** A ring of one key; every server of the tests has it unless it is given another. */
export const TOKEN_KEYS = `test:${Buffer.alloc(32, 7).toString("base64")}`;

/** A line of the server's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** A server in a process of its own. */
export interface TestServer {
  /** Where it listens. */
  readonly url: string;
  /** An API token of the environment `NAME/Customer`, `NAME/Testing` and untagged `NAME`, where NAME is random. */
  readonly tokens: { readonly customer: string; readonly testing: string; readonly untagged: string };
  readonly environment: string;
  readonly pid: number;
  /** Everything it has written to standard output and standard error so far. */
  output(): string;
  /** The lines of its log so far. */
  log(): LogLine[];
  signal(signal: NodeJS.Signals): void;
  /** Resolves with its exit code; null when a signal ended it. */
  exited(): Promise<number | null>;
  /** SIGTERM, and SIGKILL if that does not end it; resolves with the exit code. */
  stop(): Promise<number | null>;
}

/** How to start a server. */
export interface ServerOptions {
  readonly runtime?: Runtime;
  /** Undefined: the embedded store. */
  readonly redisUrl?: string | undefined;
  /** Joins the environments of another server on the same Redis. */
  readonly like?: Pick<TestServer, "environment" | "tokens">;
  /** Further settings. */
  readonly env?: { readonly [name: string]: string };
  /** Further permissions for Deno, such as `--allow-read=/path`. */
  readonly denoFlags?: readonly string[];
}

/** Starts a server on a free port and waits until it listens. */
export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const environment = options.like?.environment ?? `t${randomBytes(6).toString("hex")}`;
  const tokens = options.like?.tokens ?? { customer: newToken(), testing: newToken(), untagged: newToken() };
  const apiTokens = `${environment}/Customer=${tokens.customer},${environment}/Testing=${tokens.testing},${environment}=${tokens.untagged}`;
  const server = launch(options, {
    PORT: "0",
    API_TOKENS: apiTokens,
    ...(options.redisUrl !== undefined && { REDIS_URL: options.redisUrl, TOKEN_KEYS }),
    ...options.env,
  });
  const url = await waitFor("the server listens", () => {
    if (server.child.exitCode !== null) throw new Error(`the server ended:\n${server.output()}`);
    return server.log().find(({ msg }) => msg === "listening")?.["url"] as string | undefined;
  }).catch((error: unknown) => {
    server.signal("SIGKILL");
    throw error;
  });
  return { ...server, url, tokens, environment };
}

/** Starts a server with these settings alone; for those that are not to listen. */
export function launch(options: ServerOptions, env: { readonly [name: string]: string }) {
  const [command, args] = commandOf(options);
  const { PATH = "", HOME = "" } = process.env;
  const child: ChildProcess = spawn(command, args, { cwd: ROOT, env: { PATH, HOME, NO_COLOR: "1", ...env } });
  let text = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    text += chunk;
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    text += chunk;
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  return {
    child,
    pid: child.pid ?? 0,
    output: () => text,
    log: () => text.split("\n").flatMap(parseLine),
    signal: (signal: NodeJS.Signals) => void child.kill(signal),
    exited: () => ended,
    stop: async () => {
      child.kill("SIGCONT");
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
      const code = await ended;
      clearTimeout(timer);
      return code;
    },
  };
}

function commandOf({ runtime = "node", denoFlags = [] }: ServerOptions): [string, string[]] {
  if (runtime === "node") return [process.execPath, ["dist/main.js"]];
  return [denoBinary(), ["run", "--no-prompt", "-P", ...denoFlags, "src/main.ts"]];
}

/** The Deno executable itself: signals to the npm package's launcher do not reach it. */
export function denoBinary(): string {
  const folder = join(ROOT, "node_modules/@deno");
  for (const name of readdirSync(folder)) {
    const path = join(folder, name, "deno");
    if (existsSync(path)) return path;
  }
  throw new Error("the npm package deno has no executable for this platform; run npm ci");
}

function newToken(): string {
  return `test-${randomBytes(18).toString("base64url")}`;
}

function parseLine(line: string): LogLine[] {
  try {
    return [JSON.parse(line) as LogLine];
  } catch {
    return [];
  }
}
