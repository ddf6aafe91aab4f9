import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Call } from "./calls.ts";
import { LOAD_CORE } from "./cores.ts";
import { BUILD_FOLDER } from "./runtimes.ts";

/** A load, as it came to be. */
export interface LoadResult {
  readonly calls: number;
  readonly callsPerSecond: number;
  /** Of the answers, without headers. */
  readonly bytesPerCall: number;
}

/** How long calls took, in milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

/** What a load is put on. */
export interface LoadTarget<C = Call> {
  readonly url: string;
  readonly call: C;
  /** For files. */
  readonly folder: string;
}

/** What is needed of a call to send it. */
type Sent = Pick<Call, "http" | "path" | "headers" | "body">;

const run = promisify(execFile);

/** Connections times calls on each of them: 64 are under way. */
const PEAK = { 1: ["-c", "64"], 2: ["-c", "8", "-m", "8"] } as const;

/** Connections of a paced load: as many as at the peak, for a call on a connection of its own is dearer. */
const PACED_CLIENTS = { 1: 64, 2: 8 } as const;

/** They begin a millisecond apart: h2load paces them in steps of 10 ms, and they would else send all at once. */
const STAGGER = ["-r", "1", "--rate-period=1ms"];

/**
 * So many calls as fast as they are answered. Their number is given rather than
 * a time, so that every call that the server worked on is counted.
 *
 * @throws when a call fails
 */
export async function loadPeak(target: LoadTarget, calls: number): Promise<LoadResult> {
  const count = String(Math.max(64, Math.round(calls)));
  if (target.call.key === "create") return create(target, ["--calls", count]);
  return h2load(target, [...PEAK[target.call.http], "-n", count]);
}

/** Calls at a rate; the first quarter, while connections are made, is left out of the figures. @throws when a call fails */
export async function loadPaced(target: LoadTarget, seconds: number, callsPerSecond: number): Promise<Latency> {
  const { call, folder } = target;
  const log = join(folder, "calls.log");
  rmSync(log, { force: true });
  const clients = PACED_CLIENTS[call.http];
  const calls = String(Math.ceil((callsPerSecond * seconds) / clients) * clients);
  if (call.key === "create") {
    await create(target, ["--calls", calls, "--rate", String(callsPerSecond), "--log", log]);
  } else {
    const streams = call.http === 2 ? ["-m", "32"] : [];
    const pace = ["-n", calls, "-c", String(clients), "--rps", String(callsPerSecond / clients)];
    await h2load(target, [...pace, ...STAGGER, ...streams, `--log-file=${log}`]);
  }
  return latencyOf(readFileSync(log, "utf8"));
}

/** So many calls as fast as they are answered, on so many connections of HTTP/1.1. @throws when a call fails */
export async function loadOnConnections(
  target: LoadTarget<Sent>,
  connections: number,
  calls: number,
): Promise<LoadResult & { readonly latency: Latency }> {
  const log = join(target.folder, "calls.log");
  rmSync(log, { force: true });
  const count = String(Math.max(2 * connections, Math.round(calls)));
  const result = await h2load(target, ["-c", String(connections), "-n", count, `--log-file=${log}`]);
  return { ...result, latency: latencyOf(readFileSync(log, "utf8")) };
}

async function h2load({ url, call, folder }: LoadTarget<Sent>, args: readonly string[]): Promise<LoadResult> {
  const body = join(folder, "body");
  if (call.body) writeFileSync(body, call.body);
  const headers = Object.entries(call.headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const { stdout } = await run("taskset", [
    ...["-c", LOAD_CORE, "h2load", ...args, ...(call.http === 1 ? ["--h1"] : [])],
    ...(call.body ? ["-d", body] : []),
    ...headers,
    `${url}${call.path}`,
  ]);
  return resultOf(stdout);
}

/** h2load sends one body over and over; creating needs a new id each time. */
async function create({ url, call }: LoadTarget, args: readonly string[]): Promise<LoadResult> {
  const generator = join(BUILD_FOLDER, "create-load.js");
  const request = JSON.stringify({ url, path: call.path, headers: call.headers, body: String(call.body) });
  const { stdout } = await run("taskset", ["-c", LOAD_CORE, process.execPath, generator, ...args, request]);
  return JSON.parse(stdout) as LoadResult;
}

/** The figures that h2load prints. @throws when a call failed */
export function resultOf(text: string): LoadResult {
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

/** From h2load's log: when each call began, its status, how long it took, in microseconds. */
export function latencyOf(log: string): Latency {
  const rows = log
    .trim()
    .split("\n")
    .map((line) => line.split("\t").map(Number) as [number, number, number]);
  const begins = rows.map(([begin]) => begin).sort((a, b) => a - b);
  const from = (begins[0] ?? 0) + ((begins.at(-1) ?? 0) - (begins[0] ?? 0)) / 4;
  const took = rows.filter(([begin]) => begin >= from).map((row) => row[2]);
  took.sort((a, b) => a - b);
  const at = (share: number) => (took[Math.min(took.length - 1, Math.floor(took.length * share))] ?? Number.NaN) / 1000;
  return { p50: at(0.5), p99: at(0.99) };
}
