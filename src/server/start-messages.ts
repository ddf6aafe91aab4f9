import packageJson from "../../package.json" with { type: "json" };
import { type Config, ConfigError } from "../config/config.ts";
import { SETTINGS } from "../config/settings.ts";
import { RecordUnreadable, StoreUnavailable, TooFewReplicas } from "../domain/errors.ts";
import type { Log, Logger } from "../observability/log.ts";
import { StoreMisconfigured } from "../store/connection/errors.ts";
import type { DevelopmentTokens } from "./open-api-tokens.ts";
import { NotAllowed } from "./permissions.ts";
import { notifySupervisor, WorkersFailed, worker } from "./worker.ts";

export interface Listening {
  readonly url: string;
  /** The URL of health and metrics. Undefined if `METRICS_PORT` is not set. */
  readonly metricsUrl: string | undefined;
  /** The number of workers that share the port. Undefined if the service is a single process. */
  readonly workers?: number;
  readonly development?: DevelopmentTokens;
}

/**
 * Reports the URL of the service. If the service has generated API tokens, also reports these tokens and an example
 * call. If the output is a terminal, prints plain lines. Otherwise writes log lines.
 */
export function announce({ logger, logUnredacted, print }: Log, listening: Listening): void {
  const { url, metricsUrl, workers, development } = listening;
  const [adminToken] = development?.adminTokens ?? [];
  const consoleUrl = `${metricsUrl ?? url}/console/`;
  const tokens = (development?.apiTokens ?? []).map(
    ({ environment: { name, tag }, token }) => [`${name}/${tag}`, token] as const,
  );
  const example = tokens[0] && curl(url, tokens[0][1]);
  if (print && (example !== undefined || logger.isLevelEnabled("info"))) {
    const processes = workers === undefined ? "" : ` with ${workers} workers`;
    const operations = metricsUrl === undefined ? "" : `Health and metrics are on ${metricsUrl}\n`;
    print(`\nServing on ${url}${processes}. Ctrl-C stops the service.\n${operations}\n`);
    if (example === undefined) return;
    const width = Math.max(...tokens.map(([environment]) => environment.length));
    const rows = tokens.map(([environment, token]) => `  ${environment.padEnd(width)}  ${token}\n`);
    const admin = adminToken && `\nThe console is on ${consoleUrl}. Sign in with this ADMIN_TOKEN:\n  ${adminToken}\n`;
    print(`API_TOKENS is not set. API tokens for development:\n${rows.join("")}${admin ?? ""}\n`);
    print(`Try it:\n\n${example}\n\n`);
    return;
  }
  if (example !== undefined) {
    const admin = adminToken && { admin_token: adminToken, console: consoleUrl };
    const fields = { api_tokens: Object.fromEntries(tokens), ...admin, try: example };
    logUnredacted(fields, "API_TOKENS is not set: the service generated API tokens for development");
  }
  logger.info(
    { url, ...(metricsUrl !== undefined && { metrics_url: metricsUrl }), ...(workers !== undefined && { workers }) },
    "listening",
  );
}

/** Returns whether `HOST` is a loopback address. In this case, only this machine can connect to the service. */
export function isLoopback(host: string): boolean {
  return /^(?:127\.|::1$|localhost$)/i.test(host);
}

/** Logs warnings about settings that are probably mistakes, and about settings that expose tokens to the network. */
export function warnOfSettings(
  { misspelled, host, tls, metricsPort, apiTokens, adminTokens }: Config,
  {
    logger,
    hasConsole,
    development,
  }: { readonly logger: Logger; readonly hasConsole: boolean; readonly development: DevelopmentTokens },
): void {
  if (apiTokens.length + adminTokens.length + development.apiTokens.length === 0)
    logger.warn(
      "neither API_TOKENS nor ADMIN_TOKEN is set: the service accepts only API tokens that are already stored in Redis",
    );
  for (const { name, setting } of misspelled) {
    logger.warn(
      { name, setting },
      "an environment variable resembles a setting, but is not a setting: check the spelling",
    );
  }
  if (isLoopback(host)) return;
  if (!tls)
    logger.warn(
      { host },
      "other machines can reach HOST without TLS, so anybody on the network path can read every token: set TLS_CERT_FILE and TLS_KEY_FILE, or use a proxy with TLS",
    );
  else if (hasConsole && metricsPort !== undefined)
    logger.warn(
      { host },
      "other machines can reach METRICS_PORT, which serves the console without TLS: restrict METRICS_PORT to operators on an encrypted network, or set CONSOLE=off",
    );
}

function curl(url: string, token: string): string {
  const insecure = url.startsWith("https:") ? "-k " : "";
  return `curl ${insecure}'${url}/api/user?user_group_id=acme&name=Acme' -H 'Authorization: Token ${token}'`;
}

/**
 * Answers the arguments of the command line: prints a text, sets the exit code, and returns true. If the command line
 * has no arguments, returns false, so that the service starts.
 */
export function answerCommandLine(args: readonly string[]): boolean {
  const answer = answerTo(args);
  if (!answer) return false;
  process.exitCode = answer.exitCode;
  (answer.exitCode === 0 ? console.log : console.error)(answer.text);
  return true;
}

export function answerTo(args: readonly string[]): { text: string; exitCode: 0 | 2 } | undefined {
  const requested = args.map((arg) => KNOWN.get(arg));
  const unknown = requested.indexOf(undefined);
  if (unknown >= 0) return { text: refusal(unknown, args[unknown] ?? ""), exitCode: 2 };
  const [make] = requested;
  return make && { text: make(), exitCode: 0 };
}

const KNOWN: ReadonlyMap<string, () => string> = new Map([
  ["--help", help],
  ["-h", help],
  ["--version", () => packageJson.version],
  ["-v", () => packageJson.version],
]);

/** Returns the error for an unknown argument. Quotes only the first letters, because the rest may be a secret. */
function refusal(index: number, arg: string): string {
  const [name] = /^[a-z_-]{0,30}/i.exec(arg) ?? [];
  const shown = name ? ` (${name})` : "";
  return `argument ${index + 1}${shown} is unknown: settings are environment variables, such as PORT=8080 before the command; --help lists them`;
}

/** The minimum and maximum width of descriptions in the help, in characters. */
const DESCRIPTION_WIDTH = { least: 40, most: 80 };

function help(): string {
  const rows = Object.entries(SETTINGS).map(([name, [, , description, byDefault = ""]]) => ({
    name,
    byDefault,
    description,
  }));
  const widthOf = (column: "name" | "byDefault") => Math.max(...rows.map((row) => row[column].length));
  const [nameWidth, defaultWidth] = [widthOf("name"), widthOf("byDefault")];
  const indent = nameWidth + defaultWidth + 6;
  const { columns: terminalWidth = Number.POSITIVE_INFINITY } = process.stdout;
  const width = Math.min(Math.max(terminalWidth - indent, DESCRIPTION_WIDTH.least), DESCRIPTION_WIDTH.most);
  const lines = rows.map(({ name, byDefault, description }) => {
    const text = wrapped(plainText(description), width).join(`\n${" ".repeat(indent)}`);
    return `  ${name.padEnd(nameWidth)}  ${byDefault.padEnd(defaultWidth)}  ${text}`;
  });
  return `User Group Service ${packageJson.version}: user groups and their tokens, over gRPC, gRPC-Web, Connect and REST.

Usage: NAME=VALUE ... user-group-service [--help | --version]
       NAME=VALUE ... node dist/main.js
       NAME=VALUE ... npm run start:deno

Settings are environment variables. Name, default and description:

${lines.join("\n")}`;
}

function plainText(markdown: string): string {
  return markdown.replaceAll("`", "").replace(/\[([^\]]+)\]\([^)]+\)/g, "$1");
}

/** Returns the lines of a text. A word that is longer than the width gets a separate line. */
function wrapped(text: string, width: number): string[] {
  return (text.match(new RegExp(`(?:\\S{${width},}|.{1,${width}})(?= |$)`, "g")) ?? []).map((line) => line.trim());
}

export function explainStartFailure(error: unknown): string {
  if (error instanceof ConfigError || error instanceof NotAllowed || error instanceof WorkersFailed)
    return error.message;
  if (error instanceof StoreMisconfigured) return `cannot use Redis: ${error.message}`;
  if (error instanceof StoreUnavailable)
    return `cannot use Redis: ${(error.cause as Error)?.message}; check REDIS_URL, and that Redis runs`;
  if (error instanceof TooFewReplicas)
    return "cannot use Redis: too few replicas acknowledge changes; check MIN_REPLICAS_ACK and the replicas of Redis";
  if (error instanceof RecordUnreadable)
    return `cannot use Redis: ${(error.cause as Error)?.message}; check that REDIS_URL is the Redis of this service, and that no other program writes to it`;
  const { syscall } = error as { syscall?: unknown };
  if (syscall === "listen" || syscall === "bind" || syscall === "getaddrinfo")
    return `cannot listen: ${(error as Error).message}; check HOST, PORT and METRICS_PORT`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Prints why the service does not start. A worker sends this reason to the supervisor instead. Sets exit code 1. */
export function reportStartFailure(error: unknown): void {
  process.exitCode = 1;
  const reason = explainStartFailure(error);
  if (worker) notifySupervisor({ kind: "failed", reason });
  else console.error(reason);
}

export function endUnusable(error: Error): void {
  reportStartFailure(error);
  // Begin the same shutdown as after a signal, so that calls in flight finish. Do not send a signal, because Deno needs
  // a permission to send a signal to its own process.
  process.emit("SIGTERM", "SIGTERM");
}
