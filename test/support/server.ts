import { randomBytes } from "node:crypto";
import type { Certificates } from "@user-group-service/testing/certificates";
import { type RunningProcess, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { denoBinary, denoRun, type Runtime } from "@user-group-service/testing/runtime";

/** A key of TOKEN_KEYS, made of one byte that repeats. */
export const tokenKey = (id: string, byte: number) => `${id}:${Buffer.alloc(32, byte).toString("base64")}`;

/** A ring of one key; every server of the tests on a real Redis has it unless it is given another. */
export const TOKEN_KEYS = tokenKey("test", 7);

/** The ADMIN_TOKEN of the tests' servers. */
export const ADMIN_TOKEN = "root-of-the-tests-0123456789";

/** The settings of a server with it. */
export const ADMIN_ENV = { ADMIN_TOKEN, LOG_LEVEL: "debug" };

/** A line of the server's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** A server in a process of its own, which may not have come to listen. */
export interface ServerProcess extends RunningProcess {
  /** The lines of its log so far. */
  log(): LogLine[];
}

/** Environments of a server. */
export interface ServerEnvironments {
  /** An API token of the environment `NAME/Customer`, `NAME/Testing` and untagged `NAME`, where NAME is random. */
  readonly tokens: { readonly customer: string; readonly testing: string; readonly untagged: string };
  readonly environment: string;
}

/** A server in a process of its own, which listens. */
export interface TestServer extends ServerProcess, ServerEnvironments {
  readonly url: string;
}

/** How to start a server. */
export interface ServerOptions {
  /** Default `node`. */
  readonly runtime?: Runtime;
  /** The bundle of another release, for Node. Default: that of this one. */
  readonly main?: string;
  /** Undefined: the embedded store. */
  readonly redisUrl?: string | undefined;
  /** Undefined: without TLS. */
  readonly tls?: Certificates | undefined;
  /** Joins the environments of another server on the same Redis. */
  readonly like?: ServerEnvironments;
  /** Further settings. */
  readonly env?: { readonly [name: string]: string };
  /** Further permissions for Deno, such as `--allow-read=/path`. Default: what `WORKERS` needs. */
  readonly denoFlags?: readonly string[];
}

/** Names environments that nothing else uses. */
export function newEnvironments(): ServerEnvironments {
  const tokens = { customer: newToken(), testing: newToken(), untagged: newToken() };
  return { environment: `t${randomBytes(6).toString("hex")}`, tokens };
}

/** The value of `API_TOKENS` for environments. */
export function apiTokensOf({ environment, tokens }: ServerEnvironments): string {
  const named = `customer@${environment}/Customer=${tokens.customer},testing@${environment}/Testing=${tokens.testing}`;
  return `${named},${environment}=${tokens.untagged}`;
}

/** Starts a server on a free port and waits until it serves. */
export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const environments = options.like ?? newEnvironments();
  const server = startServerProcess({ ...options, env: { API_TOKENS: apiTokensOf(environments), ...options.env } });
  const url = await waitUntilSaid(server, "the server listens", () => {
    return server.log().find(({ msg }) => msg === "listening")?.["url"] as string | undefined;
  });
  const { environment, tokens } = environments;
  return { ...server, url, tokens, environment };
}

/** Starts a server without API tokens of its own, and waits for nothing. */
export function startServerProcess({ redisUrl, tls, env, ...options }: ServerOptions): ServerProcess {
  const server = startProcess(commandOf({ ...options, tls, env }), {
    env: {
      NO_COLOR: "1",
      PORT: "0",
      // All clients of the tests have one address, and many of them have to be refused.
      AUTH_FAILURE_LIMIT: "off",
      ...(redisUrl !== undefined && { REDIS_URL: redisUrl, TOKEN_KEYS }),
      ...(tls && { TLS_CERT_FILE: tls.server.certFile, TLS_KEY_FILE: tls.server.keyFile }),
      ...env,
    },
  });
  return { ...server, log: linesOf(server.output) };
}

/** The lines of a log, each of which is parsed once. */
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
