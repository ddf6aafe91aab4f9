import { randomBytes } from "node:crypto";
import type { Certificates } from "@user-group-service/testing/certificates";
import { type RunningProcess, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { denoBinary, denoRun, type Runtime } from "@user-group-service/testing/runtime";

export const tokenKey = (id: string, byte: number) => `${id}:${Buffer.alloc(32, byte).toString("base64")}`;

/** Default value of TOKEN_KEYS for a test server that uses Redis. */
export const TOKEN_KEYS = tokenKey("test", 7);

export const ADMIN_TOKEN = "root-of-the-tests-0123456789";

export const ADMIN_ENV = { ADMIN_TOKEN, LOG_LEVEL: "debug" };

export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** A server process that may not be ready yet. */
export interface ServerProcess extends RunningProcess {
  log(): LogLine[];
}

export interface ServerEnvironments {
  /** API tokens of three environments: `NAME/Customer`, `NAME/Testing`, and `NAME`, which has no tag. */
  readonly tokens: { readonly customer: string; readonly testing: string; readonly untagged: string };
  /** The random NAME of the three environments. */
  readonly environment: string;
}

export interface TestServer extends ServerProcess, ServerEnvironments {
  readonly url: string;
}

export interface ServerOptions {
  readonly runtime?: Runtime;
  /**
   * Path of the bundle that Node runs, such as the bundle of an earlier release. Default: the current build. If
   * `runtime` is `deno`, this option has no effect.
   */
  readonly main?: string;
  /** If undefined, the server uses the embedded store. */
  readonly redisUrl?: string | undefined;
  readonly tls?: Certificates | undefined;
  /**
   * A server on the same Redis. If this option is set, the new server uses the environments and API tokens of that
   * server. Otherwise, the new server gets new environments and API tokens.
   */
  readonly like?: ServerEnvironments;
  readonly env?: { readonly [name: string]: string };
  /**
   * Additional command-line options of Deno, such as `--allow-read=/path`. Default: if `env` contains WORKERS, the
   * permission to start the worker processes.
   */
  readonly denoFlags?: readonly string[];
}

export function newEnvironments(): ServerEnvironments {
  const tokens = { customer: newToken(), testing: newToken(), untagged: newToken() };
  return { environment: `t${randomBytes(6).toString("hex")}`, tokens };
}

export function apiTokensOf({ environment, tokens }: ServerEnvironments): string {
  const named = `customer@${environment}/Customer=${tokens.customer},testing@${environment}/Testing=${tokens.testing}`;
  return `${named},${environment}=${tokens.untagged}`;
}

/** Starts a server on a free port, and waits until it is ready. */
export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const environments = options.like ?? newEnvironments();
  const server = startServerProcess({ ...options, env: { API_TOKENS: apiTokensOf(environments), ...options.env } });
  const url = await waitUntilSaid(server, "the server is ready", () => {
    return server.log().find(({ msg }) => msg === "listening")?.["url"] as string | undefined;
  });
  const { environment, tokens } = environments;
  return { ...server, url, tokens, environment };
}

/** Starts a server, and does not wait until it is ready. The server has only the API tokens in `env`. */
export function startServerProcess({ redisUrl, tls, env, ...options }: ServerOptions): ServerProcess {
  const server = startProcess(commandOf({ ...options, tls, env }), {
    env: {
      NO_COLOR: "1",
      PORT: "0",
      // The tests make many calls that fail authentication, all from the same address. The service would limit these
      // calls.
      AUTH_FAILURE_LIMIT: "off",
      ...(redisUrl !== undefined && { REDIS_URL: redisUrl, TOKEN_KEYS }),
      ...(tls && { TLS_CERT_FILE: tls.server.certFile, TLS_KEY_FILE: tls.server.keyFile }),
      ...env,
    },
  });
  return { ...server, log: linesOf(server.output) };
}

/**
 * Returns a function that returns all complete lines of a log so far. If the function is called several times, it
 * parses each line only once. Lines that are not JSON are left out.
 */
export function linesOf(output: () => string): () => LogLine[] {
  const lines: LogLine[] = [];
  let parsed = 0;
  return () => {
    const text = output();
    const end = text.lastIndexOf("\n") + 1;
    if (end > parsed) lines.push(...text.slice(parsed, end).split("\n").flatMap(parseLine));
    parsed = Math.max(parsed, end);
    return [...lines];
  };
}

function commandOf({ runtime = "node", main = "dist/main.js", tls, env, denoFlags }: ServerOptions): string[] {
  if (runtime === "node") return [process.execPath, main];
  const mayRun = env?.["WORKERS"] === undefined ? [] : [`--allow-run=${denoBinary()}`];
  const mayRead = tls ? [`--allow-read=${tls.folder}`] : [];
  return [...denoRun(["-P", ...mayRead, ...(denoFlags ?? mayRun)]), "src/main.ts"];
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
