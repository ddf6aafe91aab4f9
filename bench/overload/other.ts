import { join } from "node:path";
import { startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { BUILD_FOLDER } from "../runtimes.ts";
import type { BenchServer } from "../servers.ts";
import { quantile } from "../statistics.ts";

/** API token of the observed caller. The token belongs to another environment than the API token of the load. */
export const OTHER_TOKEN = "bench-b3RoZXItdG9rZW4tb2YtdGhlLWJlbmNo";

export interface OtherCalls {
  readonly http1: string;
  readonly http2: string;
  readonly path: string;
  readonly headers: { readonly [name: string]: string };
}

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
  stop(): Promise<unknown>;
}

/** Starts the observed caller on the same core as this process. */
export async function startOther(server: BenchServer, address?: string): Promise<OtherCaller> {
  const calls: OtherCalls = {
    http1: server.url(1),
    http2: server.url(2),
    path: "/api/user?user_group_id=other",
    headers: { authorization: `Token ${OTHER_TOKEN}`, ...(address && { "x-forwarded-for": address }) },
  };
  const program = join(BUILD_FOLDER, "overload/other-caller.js");
  const child = startProcess([process.execPath, program, JSON.stringify(calls)]);
  let reports = 0;
  const observed = async () => {
    const number = reports++;
    child.type("\n");
    const line = await waitUntilSaid(child, "the other caller reports its calls", (output) => {
      return output.split("\n").slice(0, -1)[number];
    });
    return JSON.parse(line) as Observed;
  };
  return { observed, stop: () => child.stop() };
}

export function p99Of(...observed: readonly ObservedCalls[]): number {
  const times = observed.flatMap((calls) => calls.times).sort((a, b) => a - b);
  return quantile(times, 0.99);
}

export function lostOf({ http1, http2 }: Observed): number {
  return http1.refused + http1.failed + http2.refused + http2.failed;
}
