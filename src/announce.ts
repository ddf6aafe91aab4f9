import type { ApiTokenSetting } from "./config/parse.ts";
import type { Log } from "./observability/log.ts";

/** What is announced once the service listens. */
export interface Listening {
  /** The URL of the service, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** The URL of health and metrics; undefined when they have no port of their own. */
  readonly metricsUrl: string | undefined;
  /** How many processes share the port; undefined for a single process. */
  readonly workers?: number;
  /** The API tokens that were generated because none were set. */
  readonly generatedTokens: readonly ApiTokenSetting[];
}

/** Announces where the service listens, and how to try it: as plain lines on a terminal, as log lines elsewhere. */
export function announce({ logger, logUnredacted, print }: Log, listening: Listening): void {
  const { url, metricsUrl, workers, generatedTokens } = listening;
  const tokens = generatedTokens.map(({ environment: { name, tag }, token }) => [`${name}/${tag}`, token] as const);
  const example = tokens[0] && curl(url, tokens[0][1]);
  if (print && (example !== undefined || logger.isLevelEnabled("info"))) {
    const processes = workers === undefined ? "" : ` with ${workers} workers`;
    const operations = metricsUrl === undefined ? "" : `Health and metrics are on ${metricsUrl}\n`;
    print(`\nServing on ${url}${processes}. Ctrl-C ends it.\n${operations}\n`);
    if (example === undefined) return;
    const width = Math.max(...tokens.map(([environment]) => environment.length));
    const rows = tokens.map(([environment, token]) => `  ${environment.padEnd(width)}  ${token}\n`);
    print(`API tokens, made for development, as API_TOKENS is not set:\n${rows.join("")}\nTry it:\n\n${example}\n\n`);
    return;
  }
  if (example !== undefined) {
    const fields = { api_tokens: Object.fromEntries(tokens), try: example };
    logUnredacted(fields, "API_TOKENS is not set: made these for development");
  }
  logger.info(
    { url, ...(metricsUrl !== undefined && { metrics_url: metricsUrl }), ...(workers !== undefined && { workers }) },
    "listening",
  );
}

/** A curl command to paste into a shell. */
function curl(url: string, token: string): string {
  const insecure = url.startsWith("https:") ? "-k " : "";
  return `curl ${insecure}'${url}/api/user?user_group_id=acme&name=Acme' -H 'Authorization: Token ${token}'`;
}
