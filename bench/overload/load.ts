import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ask } from "../ask.ts";
import { type Call, type CallKey, calls } from "../calls.ts";
import { h2load, type LogRow, readLog } from "../load.ts";
import { API_TOKEN } from "../stage.ts";
import { quantile } from "../statistics.ts";

export interface Protocol {
  readonly title: string;
  readonly key: CallKey;
  readonly http: 1 | 2;
}

export const REST_HTTP2: Protocol = { title: "REST over HTTP/2", key: "restGet", http: 2 };
export const GRPC: Protocol = { title: "gRPC", key: "grpcGet", http: 2 };

export const PROTOCOLS: readonly Protocol[] = [
  { title: "REST over HTTP/1.1", key: "restGet", http: 1 },
  REST_HTTP2,
  { title: "Connect JSON over HTTP/2", key: "connectGet", http: 2 },
  GRPC,
];

export interface Reads extends Pick<Call, "headers" | "body"> {
  readonly http: 1 | 2;
  readonly urls: readonly string[];
  readonly folder: string;
  /** Prefix of the names of the load's files. Loads that run at the same time need different prefixes. */
  readonly name: string;
  /**
   * Size of a gRPC answer with a group, in bytes. gRPC refusals also have HTTP status 200. So the number of answers
   * with a group is the number of received bytes, divided by this size. Undefined for other protocols.
   */
  readonly answerBytes: number | undefined;
}

export interface Load {
  readonly title: string;
  readonly connections: number;
  readonly streams: number;
  /** Number of calls that start per second. If undefined, the next call starts when an answer arrives. */
  readonly perSecond?: number;
}

export interface Outcomes {
  readonly answeredPerSecond: number;
  readonly refusedPerSecond: number;
  /**
   * Number of broken streams, plus the number of answers that are neither a group nor a refusal. Does not include
   * broken HTTP/1.1 connections, because h2load does not count these.
   */
  readonly failed: number;
  /** p99 latency of answers with a group, in milliseconds. Over gRPC, the p99 includes refusals. */
  readonly p99: number;
}

/** All loads over HTTP/2 use this number of connections, because each connection costs CPU. */
const CONNECTIONS = 80;
const STREAMS = 250;
/** Must be less than 4096, the default of MAX_CONNECTIONS, so that the worker refuses no connection. */
const HTTP1_CONNECTIONS = 4000;

export const PEAK: Load = { title: "peak: 80 in flight", connections: CONNECTIONS, streams: 1 };

/**
 * HTTP statuses of refused calls. 401: the API token is unknown. 429: the caller exceeds its rate limit. 503: the
 * worker is overloaded.
 */
const REFUSALS = [401, 429, 503];

/** Returns a load that starts calls at a fixed rate. A call starts even if the calls before it have no answer yet. */
export function openLoop(http: 1 | 2, title: string, perSecond: number): Load {
  return http === 1
    ? { title, connections: HTTP1_CONNECTIONS, streams: 1, perSecond }
    : { title, connections: CONNECTIONS, streams: STREAMS, perSecond };
}

/**
 * Returns a load that keeps a number of calls in flight. Over HTTP/1.1, the maximum is 4,000, because each call needs
 * its own connection.
 */
export function closedLoop(http: 1 | 2, calls: number): Load {
  const connections = http === 1 ? Math.min(calls, HTTP1_CONNECTIONS) : CONNECTIONS;
  const streams = http === 1 ? 1 : Math.ceil(calls / connections);
  const inFlight = http === 1 ? connections : calls;
  return { title: `${inFlight.toLocaleString("en")} in flight`, connections, streams };
}

/**
 * Prepares the reads of groups. Over Connect and gRPC, the id of the group is in the body. h2load repeats one body, so
 * over these protocols it reads only the first group.
 */
export async function readsOf(
  { key, http }: Protocol,
  url: string,
  { groups, folder, name }: { readonly groups: readonly string[]; readonly folder: string; readonly name: string },
): Promise<Reads> {
  const [first, ...others] = groups.map((readId) => {
    const subject = { apiToken: API_TOKEN, readId, writtenId: "", userGroupToken: "" };
    return calls(subject).get(key) as Call;
  }) as [Call, ...Call[]];
  const { headers, body } = first;
  const urls = (body ? [first] : [first, ...others]).map(({ path }) => `${url}${path}`);
  const answerBytes = key === "grpcGet" ? (await ask(url, first)).bytes : undefined;
  return { http, urls, headers, body, folder, name, answerBytes };
}

/**
 * Runs a load for one second as warm-up. Then runs the load for `seconds`. The results include only the second part.
 */
export async function run(
  { http, urls, headers, body, folder, name, answerBytes }: Reads,
  { connections, streams, perSecond }: Load,
  seconds: number,
): Promise<Outcomes> {
  const file = (kind: string) => join(folder, `${name}.${kind}`);
  const [uris, data, log] = [file("uris"), file("data"), file("log")] as const;
  writeFileSync(uris, urls.join("\n"));
  if (body) writeFileSync(data, body);
  const output = await h2load(headers, [
    ...["-c", String(connections), "-m", String(streams), "-D", String(seconds), "--warm-up-time=1s"],
    ...(perSecond === undefined ? [] : ["--rps", String(perSecond / connections)]),
    ...(http === 1 ? ["--h1"] : []),
    ...(body ? ["-d", data] : []),
    ...["-i", uris, `--log-file=${log}`],
  ]);
  return outcomesOf(output, readLog(log), { seconds, answerBytes });
}

/**
 * Summarizes the output and the log of h2load. In the log, the status of a broken stream is -1 or 0. The status is also
 * 0 if the headers of an answer arrived during the warm-up. So the number of failures comes from the output, not from
 * the log.
 */
export function outcomesOf(
  output: string,
  rows: readonly LogRow[],
  { seconds, answerBytes }: { readonly seconds: number } & Pick<Reads, "answerBytes">,
): Outcomes {
  const numberIn = (pattern: RegExp) => Number(pattern.exec(output)?.[1]);
  const refusals = rows.filter(([, status]) => REFUSALS.includes(status)).length;
  const failed = Math.max(0, numberIn(/succeeded, (\d+) failed/) - refusals);
  const others = rows.length - refusals - failed;
  const answered =
    answerBytes === undefined ? others : Math.min(others, Math.round(numberIn(/\((\d+)\) data/) / answerBytes));
  const took = rows.filter(([, status]) => status === 200).map((row) => row[2] / 1000);
  took.sort((a, b) => a - b);
  return {
    answeredPerSecond: answered / seconds,
    refusedPerSecond: (rows.length - failed - answered) / seconds,
    failed,
    p99: quantile(took, 0.99),
  };
}
