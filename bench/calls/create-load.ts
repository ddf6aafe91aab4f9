import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { parseArgs } from "node:util";
import type { LoadResult } from "../load.ts";

/**
 * Creates user groups over HTTP/1.1, each with a new id. This program must use less CPU than the server, so that the
 * server is the bottleneck. So this program writes raw bytes, and checks only a part of each answer.
 */
const { values, positionals } = parseArgs({
  options: { calls: { type: "string" }, rate: { type: "string" }, log: { type: "string" } },
  allowPositionals: true,
});

interface Request {
  readonly url: string;
  readonly path: string;
  readonly headers: { readonly [name: string]: string };
  /** A JSON body with `"ID"` in place of the id. */
  readonly body: string;
}

const CONNECTIONS = 64;
const request = JSON.parse(positionals[0] as string) as Request;
const { hostname, port, host } = new URL(request.url);
const calls = Number(values.calls);
const rate = values.rate === undefined ? Number.POSITIVE_INFINITY : Number(values.rate);
const run = `${process.pid}-${Date.now()}`;
const fields = Object.entries({ host, ...request.headers }).map(([name, value]) => `${name}: ${value}\r\n`);
const head = `POST ${request.path} HTTP/1.1\r\n${fields.join("")}content-length: `;

const log: string[] = [];
let sent = 0;
let done = 0;
let bytes = 0;
let started = 0;
const idle: Socket[] = [];

function isDue(now: number): boolean {
  return sent < Math.min(calls, 1 + ((now - started) / 1000) * rate);
}

function send(socket: Socket, now: number): void {
  const body = request.body.replace('"ID"', `"bench-${run}-${sent++}"`);
  began.set(socket, now);
  socket.write(`${head}${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

const began = new Map<Socket, number>();

async function open(): Promise<void> {
  const socket = connect(Number(port), hostname).setNoDelay(true);
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
    const length = bodyLength(text);
    if (length === undefined) return;
    if (!text.startsWith("HTTP/1.1 200") || !/"newUserGroup":\s*true/.test(text)) {
      throw new Error(`a group was not created:\n${text}`);
    }
    const now = performance.now();
    const begin = began.get(socket) ?? now;
    done++;
    bytes += length;
    if (values.log !== undefined) log.push(`${Math.round(begin * 1000)}\t200\t${Math.round((now - begin) * 1000)}`);
    text = "";
    if (isDue(now)) send(socket, now);
    else idle.push(socket);
  });
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  idle.push(socket);
}

/** Returns the length of the body of an answer. Undefined if the body is not complete yet. */
function bodyLength(text: string): number | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const length = /content-length: *(\d+)/i.exec(text.slice(0, end))?.[1];
  if (length !== undefined) return text.length < end + 4 + Number(length) ? undefined : Number(length);
  return text.endsWith("\r\n0\r\n\r\n") ? text.length - end - 4 : undefined;
}

await Promise.all(Array.from({ length: CONNECTIONS }, open));
started = performance.now();
const timer = setInterval(() => {
  const now = performance.now();
  while (idle.length > 0 && isDue(now)) send(idle.pop() as Socket, now);
  if (done < calls) return;
  clearInterval(timer);
  for (const socket of idle) socket.destroy();
  if (values.log !== undefined) writeFileSync(values.log, log.join("\n"));
  const result: LoadResult = {
    calls: done,
    callsPerSecond: done / ((now - started) / 1000),
    bytesPerCall: bytes / done,
  };
  console.log(JSON.stringify(result));
}, 1);
