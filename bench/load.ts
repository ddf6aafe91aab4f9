import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Call } from "./calls.ts";
import { BUILD_FOLDER } from "./runtimes.ts";
import { quantile } from "./statistics.ts";

export interface LoadResult {
  readonly calls: number;
  readonly callsPerSecond: number;
  /** Average size of an answer's body, in bytes. */
  readonly bytesPerCall: number;
}

/** Latencies in milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

export interface LoadTarget {
  readonly url: string;
  readonly call: Call;
  readonly folder: string;
}

/**
 * A line of h2load's log: start of the call in µs, HTTP status, and duration in µs. If the call has no answer, the
 * status is -1.
 */
export type LogRow = readonly [began: number, status: number, took: number];

const run = promisify(execFile);

/** Arguments of h2load for 64 calls in flight. `-c`: number of connections. `-m`: number of calls per connection. */
const PEAK = { 1: ["-c", "64"], 2: ["-c", "8", "-m", "8"] } as const;

/**
 * Number of connections of a paced load. A paced load makes calls at a fixed rate. The peak load has the same number of
 * connections. With more connections, each connection would carry fewer calls, and a call would cost more CPU.
 */
const PACED_CLIENTS = { 1: 64, 2: 8 } as const;

/**
 * Connections start one millisecond apart. A connection of h2load sends in steps of 10 ms. If all connections started
 * at the same time, they would all send at the same time.
 */
const STAGGER = ["-r", "1", "--rate-period=1ms"];

/**
 * Makes a number of calls as fast as possible. The number of calls is fixed, but the duration is not. So no call is cut
 * off at the end, and the result counts every call.
 *
 * @throws if a call fails
 */
export function loadPeak(target: LoadTarget, calls: number): Promise<LoadResult> {
  const { key, http } = target.call;
  const count = String(Math.max(64, Math.round(calls)));
  return key === "create" ? create(target, ["--calls", count]) : sent(target, [...PEAK[http], "-n", count]);
}

/**
 * Makes calls at a fixed rate. h2load opens the connections in the first quarter of the run. The result excludes this
 * quarter.
 *
 * @throws if a call fails
 */
export async function loadPaced(target: LoadTarget, seconds: number, callsPerSecond: number): Promise<Latency> {
  const { call, folder } = target;
  const log = join(folder, "calls.log");
  const clients = PACED_CLIENTS[call.http];
  const calls = String(Math.ceil((callsPerSecond * seconds) / clients) * clients);
  if (call.key === "create") {
    await create(target, ["--calls", calls, "--rate", String(callsPerSecond), "--log", log]);
  } else {
    const streams = call.http === 2 ? ["-m", "32"] : [];
    const pace = ["-n", calls, "-c", String(clients), "--rps", String(callsPerSecond / clients)];
    await sent(target, [...pace, ...STAGGER, ...streams, `--log-file=${log}`]);
  }
  return latencyOf(readLog(log));
}

async function sent({ url, call, folder }: LoadTarget, args: readonly string[]): Promise<LoadResult> {
  const body = join(folder, "body");
  if (call.body) writeFileSync(body, call.body);
  const more = [...(call.http === 1 ? ["--h1"] : []), ...(call.body ? ["-d", body] : [])];
  return resultOf(await h2load(call.headers, [...args, ...more, `${url}${call.path}`]));
}

/**
 * Runs h2load on the core of this process.
 *
 * @returns the output of h2load
 */
export async function h2load(headers: Call["headers"], args: readonly string[]): Promise<string> {
  const sentAlong = Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  return (await run("h2load", [...sentAlong, ...args])).stdout;
}

/** Creates groups with `create-load.ts`, because h2load can only repeat one body, but each group needs a new id. */
async function create({ url, call }: LoadTarget, args: readonly string[]): Promise<LoadResult> {
  const generator = join(BUILD_FOLDER, "calls/create-load.js");
  const request = JSON.stringify({ url, path: call.path, headers: call.headers, body: String(call.body) });
  const { stdout } = await run(process.execPath, [generator, ...args, request]);
  return JSON.parse(stdout) as LoadResult;
}

/** @throws if a call failed */
function resultOf(text: string): LoadResult {
  const [callsPerSecond = 0] = numbers(text, /([\d.]+) req\/s/);
  const [done = 0, failed, errored, timeout] = numbers(
    text,
    /([\d]+) done, \d+ succeeded, (\d+) failed, (\d+) errored, (\d+) timeout/,
  );
  const [ok = 0, ...others] = numbers(text, /status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx/);
  const [data = 0] = numbers(text, /\((\d+)\) data/);
  if (failed || errored || timeout || others.some((count) => count > 0) || ok < done || done === 0) {
    throw new Error(`calls failed under load:\n${text}`);
  }
  return { calls: ok, callsPerSecond, bytesPerCall: data / ok };
}

function numbers(text: string, pattern: RegExp): number[] {
  return (pattern.exec(text) ?? []).slice(1).map(Number);
}

/** Reads h2load's log. Then deletes the log, so that the next load does not append to it. */
export function readLog(path: string): LogRow[] {
  const lines = readFileSync(path, "utf8").split("\n").filter(Boolean);
  rmSync(path);
  return lines.map((line) => line.split("\t").map(Number) as unknown as LogRow);
}

function latencyOf(rows: readonly LogRow[]): Latency {
  const begins = rows.map(([began]) => began).sort((a, b) => a - b);
  const from = (begins[0] ?? 0) + ((begins.at(-1) ?? 0) - (begins[0] ?? 0)) / 4;
  const took = rows.filter(([began]) => began >= from).map((row) => row[2] / 1000);
  took.sort((a, b) => a - b);
  return { p50: quantile(took, 0.5), p99: quantile(took, 0.99) };
}
