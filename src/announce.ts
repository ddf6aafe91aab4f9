import type { ApiTokenSetting } from "./config/config.ts";
import type { Log } from "./observability/log.ts";

/** What there is to say once the service listens. */
export interface Listening {
  readonly url: string;
  /** Of health and metrics; undefined where they have no port of their own. */
  readonly metricsUrl: string | undefined;
  /** How many processes share the port; undefined where there is one. */
  readonly workers?: number;
  /** The API tokens that were made because none were set. */
  readonly madeTokens: readonly ApiTokenSetting[];
}

/** Says where the service listens, and how to try it: plain lines on a terminal, two lines of the log elsewhere. */
export function announce({ logger, announce: reveal, print }: Log, listening: Listening): void {
  const { url, metricsUrl, workers, madeTokens } = listening;
  const tokens = madeTokens.map(({ environment: { name, tag }, token }) => [`${name}/${tag}`, token] as const);
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
    reveal(fields, "API_TOKENS is not set: made these for development");
  }
  logger.info(
    { url, ...(metricsUrl !== undefined && { metrics_url: metricsUrl }), ...(workers !== undefined && { workers }) },
    "listening",
  );
}

/** A command that works when it is pasted into a shell. */
function curl(url: string, token: string): string {
  const insecure = url.startsWith("https:") ? "-k " : "";
  return `curl ${insecure}'${url}/api/user?user_group_id=acme&name=Acme' -H 'Authorization: Token ${token}'`;
}
