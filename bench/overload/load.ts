import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { h2load, type LogRow, readLog } from "../load.ts";
import { API_TOKEN } from "../stage.ts";
import { quantile } from "../statistics.ts";

/** Reads of groups over HTTP/2, and a folder for files. */
export interface Target {
  readonly url: string;
  readonly groups: readonly string[];
  readonly folder: string;
  /** Unique among concurrent loads. */
  readonly name: string;
}

/** Outcomes of the calls of a load. */
export interface Answered {
  /** Answers with a group, per second. */
  readonly acceptedPerSecond: number;
  /** Refusals with 503, per second. */
  readonly refusedPerSecond: number;
  /** Other answers, or none: in total, not per second. */
  readonly failed: number;
  /** Latency of answers with a group, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Latency of refusals, in milliseconds. */
  readonly refusedP99: number;
}

/** Maximum calls in flight per connection: below the limit of the port. */
const STREAMS = 200;
const CONNECTIONS = 64;

/** Starts calls at a rate, whether earlier ones are answered or not. */
export function loadAtRate(target: Target, seconds: number, callsPerSecond: number): Promise<Answered> {
  const pace = ["--rps", String(callsPerSecond / CONNECTIONS)];
  return read(target, seconds, ["-c", String(CONNECTIONS), "-m", String(STREAMS), ...pace]);
}

/** Keeps this many calls in flight: each answer starts the next call. */
export function loadAtOnce(target: Target, seconds: number, calls: number): Promise<Answered> {
  const connections = Math.ceil(calls / STREAMS);
  return read(target, seconds, ["-c", String(connections), "-m", String(Math.ceil(calls / connections))]);
}

async function read(
  { url, groups, folder, name }: Target,
  seconds: number,
  args: readonly string[],
): Promise<Answered> {
  const [uris, log] = [join(folder, `${name}.uris`), join(folder, `${name}.log`)];
  writeFileSync(uris, groups.map((id) => `${url}/api/user?user_group_id=${encodeURIComponent(id)}\n`).join(""));
  const time = ["-D", String(seconds), "--warm-up-time=1s"];
  await h2load({ authorization: `Token ${API_TOKEN}` }, [...args, ...time, "-i", uris, `--log-file=${log}`]);
  return answered(readLog(log));
}

/** An overloaded worker may complete no call within the load. The log then has no rows. */
function answered(rows: readonly LogRow[]): Answered {
  const ends = rows.map(([began, , took]) => began + took);
  const [first, last] = [ends.reduce((a, b) => Math.min(a, b), Infinity), ends.reduce((a, b) => Math.max(a, b), 0)];
  const seconds = rows.length === 0 ? 1 : (last - first) / 1e6;
  const took = (status: number) =>
    rows
      .filter((row) => row[1] === status)
      .map((row) => row[2] / 1000)
      .sort((a, b) => a - b);
  const [accepted, refused] = [took(200), took(503)];
  return {
    acceptedPerSecond: accepted.length / seconds,
    refusedPerSecond: refused.length / seconds,
    failed: rows.length - accepted.length - refused.length,
    p50: quantile(accepted, 0.5),
    p99: quantile(accepted, 0.99),
    refusedP99: quantile(refused, 0.99),
  };
}
