import { join } from "node:path";
import { startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { DURATION_BUCKETS, quantileOf } from "../../src/observability/history.ts";
import { type Call, calls } from "../calls.ts";
import { BUILD_FOLDER } from "../runtimes.ts";
import type { BenchServer } from "../servers.ts";
import { quantile } from "../statistics.ts";

/** API token of the observed caller. The token belongs to another environment than the API token of the load. */
export const OTHER_TOKEN = "bench-b3RoZXItdG9rZW4tb2YtdGhlLWJlbmNo";

export interface OtherCalls {
  readonly http1: string;
  readonly http2: string;
  readonly method: string;
  readonly path: string;
  readonly headers: { readonly [name: string]: string };
  readonly body: string | undefined;
}

/**
 * Protocol of the observed caller. In the worker's metrics, the protocol distinguishes the calls of the observed caller
 * from the calls of the load.
 */
export type OtherProtocol = "rest" | "connect";

const KEYS = { rest: "restGet", connect: "connectGet" } as const;

export interface ObservedCalls {
  readonly times: number[];
  refused: number;
  /** Number of calls that fail but are not refused. A call also fails if it has no answer after 20 s. */
  failed: number;
}

export interface Observed {
  readonly http1: ObservedCalls;
  readonly http2: ObservedCalls;
}

/** The observed caller: a process that makes 50 calls per second over each HTTP version while a load runs. */
export interface OtherCaller {
  /** Waits for the calls in flight. Returns the results since the previous call of this function. */
  observed(): Promise<Observed>;
  /**
   * Returns the number of completed calls since the start of the worker, by duration in the worker. Counts all
   * GetUserGroup calls over the protocol of the observed caller. The result has one element for each bucket of
   * `DURATION_BUCKETS`. One more element counts the calls that took longer than the last bound.
   */
  completed(): Promise<number[]>;
  stop(): Promise<unknown>;
}

/**
 * Starts the observed caller on the same core as this process.
 *
 * @param address client address in the header that a proxy would send. Default: no such header
 */
export async function startOther(
  server: BenchServer,
  { protocol, address }: { readonly protocol: OtherProtocol; readonly address?: string | undefined },
): Promise<OtherCaller> {
  const subject = { apiToken: OTHER_TOKEN, readId: "other", writtenId: "", userGroupToken: "" };
  const { path, headers, body } = calls(subject).get(KEYS[protocol]) as Call;
  const made: OtherCalls = {
    http1: server.url(1),
    http2: server.url(2),
    method: body ? "POST" : "GET",
    path,
    headers: { ...headers, ...(address && { "x-forwarded-for": address }) },
    body: body && Buffer.from(body).toString(),
  };
  const program = join(BUILD_FOLDER, "overload/other-caller.js");
  const child = startProcess([process.execPath, program, JSON.stringify(made)]);
  let reports = 0;
  const observed = async () => {
    const number = reports++;
    child.type("\n");
    const line = await waitUntilSaid(child, "the other caller reports its calls", (output) => {
      return output.split("\n").slice(0, -1)[number];
    });
    return JSON.parse(line) as Observed;
  };
  return { observed, completed: () => completed(server, protocol), stop: () => child.stop() };
}

async function completed(server: BenchServer, protocol: OtherProtocol): Promise<number[]> {
  const metrics = await (await fetch(`${server.url(1)}/metrics`)).text();
  const isBucket = (line: string) =>
    line.startsWith("grpc_server_handling_seconds_bucket{") &&
    line.includes('grpc_method="GetUserGroup"') &&
    line.includes(`protocol="${protocol}"`);
  const atMost = metrics.split("\n").flatMap((line) => (isBucket(line) ? Number(line.split(" ").at(-1)) : []));
  if (atMost.length !== DURATION_BUCKETS.length + 1) throw new Error(`no durations of ${protocol} in the metrics`);
  return atMost.map((count, i) => count - (atMost[i - 1] ?? 0));
}

/** Returns the p99 of the durations between two results of `OtherCaller.completed`, in milliseconds. */
export function handlingP99(before: readonly number[], after: readonly number[]): number {
  const counts = after.map((count, i) => count - (before[i] as number));
  return 1000 * (quantileOf(counts, 0.99) ?? Number.NaN);
}

export function p99Of(...observed: readonly ObservedCalls[]): number {
  const times = observed.flatMap((calls) => calls.times).sort((a, b) => a - b);
  return quantile(times, 0.99);
}

export function lostOf({ http1, http2 }: Observed): number {
  return http1.refused + http1.failed + http2.refused + http2.failed;
}
