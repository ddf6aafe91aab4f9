import { Agent, request } from "node:http";
import { type ClientHttp2Session, connect } from "node:http2";
import { createInterface } from "node:readline";
import type { Observed, ObservedCalls, OtherCalls } from "./other.ts";

/**
 * Makes 50 calls per second over HTTP/1.1 and 50 over HTTP/2. After each line on standard input, this program prints a
 * line of JSON with the results since the previous line.
 */
const INTERVAL_MS = 1000 / 50;
const TIMEOUT_MS = 20_000;

const { http1, http2, method, path, headers, body } = JSON.parse(process.argv[2] as string) as OtherCalls;
// "fifo" uses the connections in turn, so that the server does not close any connection as idle.
const agent = new Agent({ keepAlive: true, maxSockets: 32, scheduling: "fifo" });
let session: ClientHttp2Session | undefined;

let observed: Observed = { http1: none(), http2: none() };
let calls: Promise<void>[] = [];

function none(): ObservedCalls {
  return { times: [], refused: 0, failed: 0 };
}

function over1(signal: AbortSignal): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(`${http1}${path}`, { agent, method, headers, signal }, (response) => {
      response.resume().on("error", reject);
      response.on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject).end(body);
  });
}

function over2(signal: AbortSignal): Promise<number | undefined> {
  if (session === undefined || session.closed || session.destroyed) session = connect(http2).on("error", () => {});
  const stream = session.request({ ...headers, ":method": method, ":path": path }, { signal });
  return new Promise((resolve, reject) => {
    let status: number | undefined;
    stream.on("response", (answer) => {
      status = answer[":status"];
    });
    stream.on("error", reject);
    stream.on("close", () => resolve(status));
    stream.resume().end(body);
  });
}

async function make(call: typeof over1, into: ObservedCalls): Promise<void> {
  const began = performance.now();
  const status = await call(AbortSignal.timeout(TIMEOUT_MS)).catch(() => undefined);
  if (status === 200) into.times.push(performance.now() - began);
  else if (status === 503 || status === 429) into.refused++;
  else into.failed++;
}

let due = performance.now();
setInterval(() => {
  for (; due <= performance.now(); due += INTERVAL_MS) {
    calls.push(make(over1, observed.http1), make(over2, observed.http2));
  }
}, 5);

createInterface({ input: process.stdin }).on("line", async () => {
  const [ended, results] = [calls, observed];
  calls = [];
  observed = { http1: none(), http2: none() };
  await Promise.all(ended);
  console.log(JSON.stringify(results));
});
