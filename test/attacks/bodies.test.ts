import { promisify } from "node:util";
import { brotliCompress, constants, gzipSync } from "node:zlib";
import { envelope } from "@user-group-service/testing/http";
import { waitFor } from "@user-group-service/testing/wait";
import { type Attack, describeAttacks, type Target } from "./support/attack.ts";
import { authorization, head, PATHS, post, protoField, repeatedProperties } from "./support/requests.ts";
import type { Wire } from "./support/wire.ts";

const MIB = 1024 * 1024;

/**
 * What chunks of one byte may seem to hold on each of 8 connections, in KiB: Deno's TLS takes 50 MiB more or less from
 * one time to the next, without growing. A server that kept every chunk would hold five times as much.
 */
const CHUNKS_KIB = 12_288;

/** An UpdateUserGroupRequest of empty mapping entries, as many as fit: little on the wire, much to decode. */
const MANY_ENTRIES = Buffer.alloc(MIB - 16, protoField(3, ""));

/** A POST over HTTP/1.1, and when its answer has come. */
async function exchange(wire: Wire, request: string | Buffer, body: Buffer): Promise<void> {
  const before = wire.receivedBytes;
  if (!(await wire.send(Buffer.concat([Buffer.from(request), body])))) return;
  await waitFor("an answer", () => wire.isClosed || wire.receivedBytes > before, 120_000);
}

/** Sends a body so many times, each on a connection of its own. */
async function repeat(target: Target, times: number, request: string, body: Buffer): Promise<number> {
  for (let i = 0; i < times; i++) {
    const wire = await target.http1();
    await exchange(wire, request, body);
    wire.close();
  }
  return times;
}

/** A body that a caller without a token sends to HTTP/1.1. */
function stranger(title: string, { path, fields, body, method = "POST" }: StrangerBody, cpuMs: number): Attack {
  return {
    title: `${title}, no token`,
    bounds: { cpuMs },
    run: async (target) => {
      const request = head(method, path, { ...fields, "Content-Length": body.byteLength });
      return { requests: await repeat(target, 10, request, body), outcome: "refused" };
    },
  };
}

interface StrangerBody {
  readonly path: string;
  readonly fields: { readonly [name: string]: string };
  readonly body: Buffer;
  readonly method?: string;
}

const bomb = gzipSync(MANY_ENTRIES);
let nothing: Buffer | undefined;
const nested = Buffer.from("[".repeat(500_000) + "]".repeat(500_000));

describeAttacks("bodies of strangers", [
  stranger(
    "1 KiB of gzip, 1 MiB of mapping (Connect)",
    {
      path: PATHS.update,
      fields: { "Content-Type": "application/proto", "Content-Encoding": "gzip" },
      body: bomb,
    },
    50,
  ),
  stranger(
    "1 KiB of gzip, 1 MiB of mapping (gRPC-Web)",
    {
      path: PATHS.update,
      fields: { "Content-Type": "application/grpc-web+proto", "grpc-encoding": "gzip" },
      body: envelope(bomb, 1),
    },
    50,
  ),
  stranger(
    "1 KiB of gzip, 1 MiB of JSON (REST)",
    {
      path: "/api/user",
      method: "PUT",
      fields: { "Content-Type": "application/json", "Content-Encoding": "gzip" },
      body: gzipSync(nested),
    },
    50,
  ),
  stranger(
    "1.4 MB of `AA==` (gRPC-Web text)",
    {
      path: PATHS.get,
      fields: { "Content-Type": "application/grpc-web-text+proto" },
      body: Buffer.from("AA==".repeat(350_000)),
    },
    100,
  ),
  stranger(
    "1 MiB of brackets (Connect JSON)",
    { path: PATHS.get, fields: { "Content-Type": "application/json" }, body: nested },
    100,
  ),
  stranger(
    "gzip of 64 MiB to health, which is open",
    {
      path: "/grpc.health.v1.Health/Check",
      fields: { "Content-Type": "application/json", "Content-Encoding": "gzip" },
      body: gzipSync(Buffer.alloc(64 * MIB)),
    },
    60,
  ),
  {
    title: "1 KiB of gzip, 1 MiB of mapping (gRPC), no token",
    bounds: { cpuMs: 50 },
    run: async (target) => {
      const http2 = await target.http2();
      for (let i = 0; i < 10; i++) {
        const stream = await http2.request(post(PATHS.update, "application/grpc", [["grpc-encoding", "gzip"]]), {
          isEnd: false,
        });
        await http2.data(stream, envelope(bomb, 1), { isEnd: true });
        await waitFor("an answer", () => http2.isEnded(stream), 120_000);
      }
      return { requests: 10, outcome: "refused" };
    },
  },
  {
    title: "chunks of one byte, 256 Ki of them (HTTP/1.1), no token",
    isRehearsed: true,
    bounds: { heldKiB: CHUNKS_KIB, cpuMs: 3000 },
    run: (target) => oneByteChunks(target, {}),
  },
  {
    title: "chunks with long extensions (HTTP/1.1)",
    // Deno's TLS keeps some room for what it was sent once, however often.
    isRehearsed: true,
    bounds: { heldKiB: 2048, cpuMs: 300 },
    run: async ({ http1 }) => {
      for (let i = 0; i < 10; i++) {
        const wire = await http1();
        await wire.send(head("POST", "/api/user", { "Transfer-Encoding": "chunked" }));
        for (let n = 0; n < 200; n++) if (!(await wire.send(`1;${"e".repeat(15_000)}\r\na\r\n`))) break;
      }
      return { requests: 10, connections: 10, outcome: "refused" };
    },
  },
  {
    title: "pieces of one byte, 60,000 of them on each of 8 streams (HTTP/2), no token",
    isRehearsed: true,
    bounds: { heldKiB: 8192, cpuMs: 1500 },
    run: async (target) => onePieces(target, []),
  },
  {
    title: "bodies that stop (250 streams on each of 20 connections), no token",
    // The first answer ends what a connection sends: each request has a connection, and its handshake, of its own.
    bounds: { heldKiB: 1024, cpuMs: 50 },
    run: async (target) => halfBodies(target, []),
  },
  {
    title: "3 MB to one connection again and again (HTTP/2), no token",
    bounds: { cpuMs: 150, heldKiB: 4096 },
    run: (target) => oversized(target, []),
  },
]);

describeAttacks("bodies of token holders", [
  {
    title: "a Struct of 4,000 keys, then 8,000 empty ones (56 KB)",
    bounds: { cpuMs: 2000 },
    run: async (target) => {
      const [name, value] = authorization(target);
      const body = repeatedProperties({ keys: 4000, repeats: 8000 });
      const fields = { "Content-Type": "application/proto", [name]: value, "Content-Length": body.byteLength };
      return { requests: await repeat(target, 1, head("POST", PATHS.update, fields), body), outcome: "answered" };
    },
  },
  {
    title: "1 KiB of gzip, 1 MiB of mapping (Connect)",
    bounds: { cpuMs: 2500 },
    run: async (target) => {
      const [name, value] = authorization(target);
      const fields = { "Content-Type": "application/proto", "Content-Encoding": "gzip", [name]: value };
      const request = head("POST", PATHS.update, { ...fields, "Content-Length": bomb.byteLength });
      return { requests: await repeat(target, 5, request, bomb), outcome: "refused" };
    },
  },
  {
    title: "1 KiB of Brotli, 256 MiB of nothing (REST)",
    bounds: { cpuMs: 300, heldKiB: 8192 },
    run: async (target) => {
      const [name, value] = authorization(target);
      // Made when it is needed, beside this thread, which hears the bystander.
      const params = { [constants.BROTLI_PARAM_QUALITY]: 5 };
      nothing ??= await promisify(brotliCompress)(Buffer.alloc(256 * MIB), { params });
      const body = nothing;
      const fields = { "Content-Type": "application/json", "Content-Encoding": "br", [name]: value };
      const request = head("PUT", "/api/user", { ...fields, "Content-Length": body.byteLength });
      return { requests: await repeat(target, 10, request, body), outcome: "refused" };
    },
  },
  {
    title: "1 MiB of brackets (REST)",
    bounds: { cpuMs: 400 },
    run: async (target) => {
      const [name, value] = authorization(target);
      const request = head("PUT", "/api/user", { [name]: value, "Content-Length": nested.byteLength });
      return { requests: await repeat(target, 10, request, nested), outcome: "refused" };
    },
  },
  {
    title: "chunks of one byte, 256 Ki of them (HTTP/1.1)",
    isRehearsed: true,
    bounds: { heldKiB: CHUNKS_KIB, cpuMs: 3000 },
    run: (target) => oneByteChunks(target, Object.fromEntries([authorization(target)])),
  },
  {
    title: "pieces of one byte, 60,000 of them on each of 8 streams (HTTP/2)",
    isRehearsed: true,
    bounds: { heldKiB: 8192, cpuMs: 1500 },
    run: (target) => onePieces(target, [authorization(target)]),
  },
  {
    title: "bodies that stop (250 streams on each of 20 connections)",
    // 64 MiB of bodies and some 2,500 streams, whose rests are waited for, on 20 connections. Kept bodies are 11 MiB more.
    bounds: { heldKiB: 8192, cpuMs: 10 },
    run: (target) => halfBodies(target, [authorization(target)]),
  },
  {
    title: "3 MB to one connection again and again (HTTP/2)",
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
    await wire.send(head("PUT", "/api/user", { ...fields, "Transfer-Encoding": "chunked" }));
    for (let n = 0; n < 64; n++) if (!(await wire.send(chunks))) break;
  }
  return { requests: connections, connections, outcome: "held or refused" };
}

async function onePieces(target: Target, fields: readonly (readonly [string, string])[]) {
  const http2 = await target.http2();
  for (let i = 0; i < 8; i++) {
    const stream = await http2.request(post(PATHS.get, "application/json", fields), { isEnd: false });
    // What the windows hold back is not sent: the server decides how much it takes.
    await http2.data(stream, Buffer.alloc(60_000, "["), { pieceBytes: 1, patienceMs: 2000 });
  }
  return { requests: 8, connections: 1, outcome: "held or refused" };
}

async function halfBodies(target: Target, fields: readonly (readonly [string, string])[]) {
  const connections = 20;
  let requests = 0;
  for (let i = 0; i < connections; i++) {
    const http2 = await target.http2();
    for (let n = 0; n < 250; n++) {
      requests++;
      const stream = await http2.request(post(PATHS.get, "application/grpc", fields), { isEnd: false });
      const announced = envelope(Buffer.alloc(1024 * 1024)).subarray(0, 5 + 100_000);
      if (!(await http2.data(stream, announced, { patienceMs: 200 }))) break;
    }
  }
  return { requests, connections, outcome: "held or refused" };
}

async function oversized(target: Target, fields: readonly (readonly [string, string])[]) {
  const http2 = await target.http2();
  const body = Buffer.alloc(3_000_000, " ");
  const times = 100;
  for (let i = 0; i < times; i++) {
    const stream = await http2.request(post(PATHS.get, "application/json", fields), { isEnd: false });
    await http2.data(stream, body, { isEnd: true });
    await waitFor("an answer", () => http2.isAnswered(stream));
    if (http2.wire.isClosed) throw new Error(`the connection was closed after ${i + 1} messages`);
  }
  // The connection is as good as new: a body larger than its first window arrives.
  const stream = await http2.request(post(PATHS.get, "application/json", [authorization(target)]), { isEnd: false });
  const sent = await http2.data(stream, Buffer.from(`${" ".repeat(100_000)}{"userGroupId":"a"}`), { isEnd: true });
  if (!sent) throw new Error("the connection takes no more bodies");
  await waitFor("a good call is answered", () => http2.isEnded(stream) && http2.isAnswered(stream));
  return { requests: times, connections: 1, outcome: "the connection goes on" };
}
