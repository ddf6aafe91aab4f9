import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Call } from "./calls.ts";
import { LOAD_CORE } from "./servers.ts";

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
export interface LoadTarget {
  readonly url: string;
  readonly call: Call;
  /** For files. */
  readonly folder: string;
}

const run = promisify(execFile);

/** Connections times calls on each of them. */
const PEAK = { 1: ["-c", "64"], 2: ["-c", "8", "-m", "8"] } as const;

/** Connections of a paced load: as many as at the peak, for a call on a connection of its own is dearer. */
const PACED_CLIENTS = { 1: 64, 2: 8 } as const;

/** They begin a millisecond apart: h2load paces them in steps of 10 ms, and they would else send all at once. */
const STAGGER = ["-r", "1", "--rate-period=1ms"];

/** Calls as fast as they are answered, with 64 under way. @throws when a call fails */
export async function loadPeak({ url, call, folder }: LoadTarget, seconds: number): Promise<LoadResult> {
  if (call.key === "create") return create(url, call, ["--seconds", String(seconds)]);
  return h2load({ url, call, folder }, [...PEAK[call.http], "-D", `${seconds * 1000}ms`]);
}

/** Calls at a rate; the first quarter, while connections are made, is left out of the figures. @throws when a call fails */
export async function loadPaced(target: LoadTarget, seconds: number, callsPerSecond: number): Promise<Latency> {
  const { url, call, folder } = target;
  const log = join(folder, "calls.log");
  rmSync(log, { force: true });
  if (call.key === "create") {
    await create(url, call, ["--seconds", String(seconds), "--rate", String(callsPerSecond), "--log", log]);
  } else {
    const clients = PACED_CLIENTS[call.http];
    const calls = Math.ceil((callsPerSecond * seconds) / clients) * clients;
    const streams = call.http === 2 ? ["-m", "32"] : [];
    const pace = ["-n", String(calls), "-c", String(clients), "--rps", String(callsPerSecond / clients)];
    await h2load(target, [...pace, ...STAGGER, ...streams, `--log-file=${log}`]);
  }
  return latencyOf(readFileSync(log, "utf8"));
}

async function h2load({ url, call, folder }: LoadTarget, args: readonly string[]): Promise<LoadResult> {
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
async function create(url: string, call: Call, args: readonly string[]): Promise<LoadResult> {
  const generator = "dist-bench/bench/create-load.js";
  const request = JSON.stringify({ url, path: call.path, headers: call.headers, body: String(call.body) });
  const { stdout } = await run("taskset", ["-c", LOAD_CORE, process.execPath, generator, ...args, request]);
  return JSON.parse(stdout) as LoadResult;
}

/** The figures that h2load prints. @throws when a call failed */
export function resultOf(text: string): LoadResult {
  const [seconds = 0] = numbers(text, /finished in ([\d.]+)s/);
  const [done = 0, failed, errored, timeout] = numbers(
    text,
    /([\d]+) done, \d+ succeeded, (\d+) failed, (\d+) errored, (\d+) timeout/,
  );
  const [ok = 0, ...others] = numbers(text, /status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx/);
  const [data = 0] = numbers(text, /\((\d+)\) data/);
  if (failed || errored || timeout || others.some((count) => count > 0) || ok < done || done === 0) {
    throw new Error(`calls failed under load:\n${text}`);
  }
  return { calls: ok, callsPerSecond: done / seconds, bytesPerCall: data / ok };
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
