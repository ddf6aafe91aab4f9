import { promisify } from "node:util";
import { brotliCompress, constants, gzipSync } from "node:zlib";
import type { Attack, Target } from "@user-group-service/testing/attacks/attack";
import { repeat } from "@user-group-service/testing/attacks/repeated";
import { authorization, head, post, protoField } from "@user-group-service/testing/attacks/requests";
import { envelope } from "@user-group-service/testing/http";
import { waitFor } from "@user-group-service/testing/wait";
import { MAX_HTTP2_STREAMS } from "../../src/limits.ts";
import { PATHS } from "../support/talk-ports.ts";
import { describeAttacks } from "./port.ts";

const MIB = 1024 * 1024;

/**
 * The memory limit for a connection, in KiB. The memory of Deno's TLS varies by about 50 MiB on 8 connections. A server
 * that kept every chunk would hold five times the limit.
 */
const CHUNKS_KIB = 12_288;

/** A message full of empty map entries. The message is cheap to send but expensive to decode. */
const MANY_ENTRIES = Buffer.alloc(MIB - 16, protoField(5, ""));

function unauthenticated(
  title: string,
  { path, fields, body, method = "POST" }: UnauthenticatedBody,
  cpuMs: number,
): Attack {
  return {
    title: `${title}, no token`,
    bounds: { cpuMs },
    run: async (target) => {
      const request = head(method, path, { ...fields, "Content-Length": body.byteLength });
      return { requests: await repeat(target, 10, request, body), outcome: "refused" };
    },
  };
}

interface UnauthenticatedBody {
  readonly path: string;
  readonly fields: { readonly [name: string]: string };
  readonly body: Buffer;
  readonly method?: string;
}

const bomb = gzipSync(MANY_ENTRIES);
let nothing: Buffer | undefined;
const nested = Buffer.from("[".repeat(500_000) + "]".repeat(500_000));

describeAttacks("bodies of unauthenticated clients", [
  unauthenticated(
    "1 KiB of gzip that contains 1 MiB of map entries (Connect)",
    {
      path: PATHS.say,
      fields: { "Content-Type": "application/proto", "Content-Encoding": "gzip" },
      body: bomb,
    },
    50,
  ),
  unauthenticated(
    "1 KiB of gzip that contains 1 MiB of map entries (gRPC-Web)",
    {
      path: PATHS.say,
      fields: { "Content-Type": "application/grpc-web+proto", "grpc-encoding": "gzip" },
      body: envelope(bomb, 1),
    },
    50,
  ),
  unauthenticated(
    "1 KiB of gzip that contains 1 MiB of JSON (endpoint)",
    {
      path: PATHS.talk,
      method: "PUT",
      fields: { "Content-Type": "application/json", "Content-Encoding": "gzip" },
      body: gzipSync(nested),
    },
    50,
  ),
  unauthenticated(
    "1.4 MB of `AA==` (gRPC-Web text)",
    {
      path: PATHS.say,
      fields: { "Content-Type": "application/grpc-web-text+proto" },
      body: Buffer.from("AA==".repeat(350_000)),
    },
    100,
  ),
  unauthenticated(
    "1 MiB of brackets (Connect JSON)",
    { path: PATHS.say, fields: { "Content-Type": "application/json" }, body: nested },
    100,
  ),
  unauthenticated(
    "gzip of 64 MiB to a method that needs no token",
    {
      path: PATHS.look,
      fields: { "Content-Type": "application/json", "Content-Encoding": "gzip" },
      body: gzipSync(Buffer.alloc(64 * MIB)),
    },
    60,
  ),
  {
    title: "1 KiB of gzip that contains 1 MiB of map entries (gRPC), no token",
    bounds: { cpuMs: 50 },
    run: async (target) => {
      const http2 = await target.http2();
      for (let i = 0; i < 10; i++) {
        const stream = await http2.request(post(PATHS.say, "application/grpc", [["grpc-encoding", "gzip"]]), {
          isEnd: false,
        });
        await http2.data(stream, envelope(bomb, 1), { isEnd: true });
        await waitFor("the server answers", () => http2.isEnded(stream), 120_000);
      }
      return { requests: 10, outcome: "refused" };
    },
  },
  {
    title: "256 Ki chunks of one byte (HTTP/1.1), no token",
    isRehearsed: true,
    bounds: { heldKiB: CHUNKS_KIB, cpuMs: 3000 },
    run: (target) => oneByteChunks(target, {}),
  },
  {
    title: "chunks with long extensions (HTTP/1.1)",
    // Run the attack once before the measurement, because Deno's TLS keeps a buffer after the first received data.
    isRehearsed: true,
    bounds: { heldKiB: 2048, cpuMs: 300 },
    run: async ({ http1 }) => {
      for (let i = 0; i < 10; i++) {
        const wire = await http1();
        await wire.send(head("POST", PATHS.talk, { "Transfer-Encoding": "chunked" }));
        for (let n = 0; n < 200; n++) if (!(await wire.send(`1;${"e".repeat(15_000)}\r\na\r\n`))) break;
      }
      return { requests: 10, connections: 10, outcome: "refused" };
    },
  },
  {
    title: "60,000 pieces of one byte on each of 8 streams (HTTP/2), no token",
    isRehearsed: true,
    // Deno's TLS takes 20 to 31 MiB. A server that kept every piece would hold 200 MiB.
    bounds: { heldKiB: 24_576, cpuMs: 1500 },
    run: async (target) => onePieces(target, []),
  },
  {
    title: "incomplete bodies (100 streams on each of 50 connections), no token",
    // After the first answer, the attack opens the next connection, so each request costs a connection and a handshake.
    bounds: { heldKiB: 1024, cpuMs: 50 },
    run: async (target) => halfBodies(target, []),
  },
  {
    title: "99 bodies of 3 MB on one connection (HTTP/2), no token",
    bounds: { cpuMs: 150, heldKiB: 4096 },
    run: (target) => oversized(target, []),
  },
]);

describeAttacks("bodies of token holders", [
  {
    title: "1 KiB of Brotli that expands to 256 MiB (endpoint)",
    bounds: { cpuMs: 300, heldKiB: 8192 },
    run: async (target) => {
      const [name, value] = authorization(target);
      // Compress asynchronously. Synchronous compression would delay the client that measures latencies.
      const params = { [constants.BROTLI_PARAM_QUALITY]: 5 };
      nothing ??= await promisify(brotliCompress)(Buffer.alloc(256 * MIB), { params });
      const body = nothing;
      const fields = { "Content-Type": "application/json", "Content-Encoding": "br", [name]: value };
      const request = head("PUT", PATHS.talk, { ...fields, "Content-Length": body.byteLength });
      return { requests: await repeat(target, 10, request, body), outcome: "refused" };
    },
  },
  {
    title: "256 Ki chunks of one byte (HTTP/1.1)",
    isRehearsed: true,
    bounds: { heldKiB: CHUNKS_KIB, cpuMs: 3000 },
    run: (target) => oneByteChunks(target, Object.fromEntries([authorization(target)])),
  },
  {
    title: "60,000 pieces of one byte on each of 8 streams (HTTP/2)",
    isRehearsed: true,
    bounds: { heldKiB: 8192, cpuMs: 1500 },
    run: (target) => onePieces(target, [authorization(target)]),
  },
  {
    title: "incomplete bodies (100 streams on each of 50 connections)",
    // The server holds 64 MiB of bodies on 20 connections, and about 2,500 streams that wait for more data. A server
    // that kept all bodies would hold 11 MiB per connection.
    bounds: { heldKiB: 8192, cpuMs: 10 },
    run: (target) => halfBodies(target, [authorization(target)]),
  },
  {
    title: "99 bodies of 3 MB on one connection (HTTP/2)",
    bounds: { cpuMs: 150, heldKiB: 4096 },
    isRehearsed: true,
    run: (target) => oversized(target, [authorization(target)]),
  },
]);

async function oneByteChunks(target: Target, fields: { readonly [name: string]: string }) {
  const chunks = Buffer.from("1\r\na\r\n".repeat(4096));
  const connections = 8;
  for (let i = 0; i < connections; i++) {
    const wire = await target.http1();
    await wire.send(head("PUT", PATHS.talk, { ...fields, "Transfer-Encoding": "chunked" }));
    for (let n = 0; n < 64; n++) if (!(await wire.send(chunks))) break;
  }
  return { requests: connections, connections, outcome: "held or refused" };
}

async function onePieces(target: Target, fields: readonly (readonly [string, string])[]) {
  const http2 = await target.http2();
  for (let i = 0; i < 8; i++) {
    const stream = await http2.request(post(PATHS.say, "application/json", fields), { isEnd: false });
    // The flow-control window of the server limits the data that the client can send.
    await http2.data(stream, Buffer.alloc(60_000, "["), { pieceBytes: 1, patienceMs: 2000 });
  }
  return { requests: 8, connections: 1, outcome: "held or refused" };
}

async function halfBodies(target: Target, fields: readonly (readonly [string, string])[]) {
  const connections = 50;
  let requests = 0;
  for (let i = 0; i < connections; i++) {
    const http2 = await target.http2();
    for (let n = 0; n < 100; n++) {
      requests++;
      const stream = await http2.request(post(PATHS.say, "application/grpc", fields), { isEnd: false });
      const announced = envelope(Buffer.alloc(1024 * 1024)).subarray(0, 5 + 100_000);
      if (!(await http2.data(stream, announced, { patienceMs: 200 }))) break;
    }
  }
  return { requests, connections, outcome: "held or refused" };
}

async function oversized(target: Target, fields: readonly (readonly [string, string])[]) {
  const http2 = await target.http2();
  const body = Buffer.alloc(3_000_000, " ");
  // The streams stay open, because their bodies never arrive completely. One stream is left for the valid call.
  const times = MAX_HTTP2_STREAMS - 1;
  for (let i = 0; i < times; i++) {
    const stream = await http2.request(post(PATHS.say, "application/json", fields), { isEnd: false });
    await http2.data(stream, body, { isEnd: true });
    await waitFor("the server answers", () => http2.isAnswered(stream));
    if (http2.wire.isClosed) throw new Error(`the connection was closed after ${i + 1} messages`);
  }
  // The connection must work like a new connection. For example, it must accept a body larger than the initial window.
  const stream = await http2.request(post(PATHS.say, "application/json", [authorization(target)]), { isEnd: false });
  const sent = await http2.data(stream, Buffer.from(`${" ".repeat(100_000)}{"text":"a"}`), { isEnd: true });
  if (!sent) throw new Error("the connection accepts no more bodies");
  await waitFor("the server answers a valid call", () => http2.isEnded(stream) && http2.isAnswered(stream));
  return { requests: times, connections: 1, outcome: "the connection still works" };
}
