import { gzipSync } from "node:zlib";
import { envelope } from "@user-group-service/testing/http";
import {
  FLAG,
  FRAME,
  frame,
  hpackBlock,
  numberFrame,
  PREFACE,
  settings,
} from "@user-group-service/testing/http2-frames";

/** Valid requests on one connection. */
export interface Exchange {
  readonly name: string;
  readonly protocol: "h2" | "http/1.1";
  /** HTTP/2 frames, or the headers and bodies of HTTP/1.1 requests. */
  readonly pieces: readonly Buffer[];
  /** Number of responses that the server must send. */
  readonly answers: number;
}

type Fields = readonly (readonly [string, string])[];

const TRAILERS_END = Buffer.from([0x80, 0, 0, 0, 0]);

/** A request that can be sent over both HTTP versions. */
export interface Ask {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly fields: Fields;
  readonly body?: Buffer;
  /** Whether the response never ends. If true, no other request can follow on an HTTP/1.1 connection. */
  readonly isEndless?: true;
}

/** Returns the exchanges that the fuzzer splits and mutates. The first three of `asks` must carry a valid token. */
export function exchangesOf(asks: readonly Ask[]): Exchange[] {
  const single = asks.flatMap((ask) => [http1([ask]), http1([ask], { isChunked: true }), http2([ask])]);
  const [first, second, third] = asks as readonly [Ask, Ask, Ask];
  const several = [
    http1([first, second, third]),
    http1(asks.filter(({ isEndless }) => !isEndless).slice(0, MAX_PIPELINED)),
    http2([first, second, third]),
    http2(asks.slice(0, 12)),
    http2([third], { expects: true }),
    http1([third], { expects: true }),
    http1([third], { isChunked: true, hasTrailers: true }),
    http2([first, second], { isPadded: true }),
  ];
  return [...single, ...several];
}

interface Method {
  readonly path: string;
  /** A request message in binary. `json` has the same message in JSON. */
  readonly proto: Buffer;
  readonly json: string;
  readonly authorization: string;
}

/** Returns calls of a unary method over every protocol, each with and without a valid token. */
export function callsOf({ path, proto, json, authorization }: Method): Ask[] {
  const call = (name: string, type: string, body: Buffer, more: Fields = []) =>
    withAndWithout(authorization, { name, path, type, body, more });
  return [
    ...call("Connect JSON", "application/json", Buffer.from(json), [
      ["connect-protocol-version", "1"],
      ["connect-timeout-ms", "9000"],
    ]),
    ...call("Connect proto", "application/proto", proto),
    ...call("Connect proto, gzip", "application/proto", gzipSync(proto), [
      ["content-encoding", "gzip"],
      ["accept-encoding", "br, gzip"],
    ]),
    ...call("gRPC", "application/grpc", envelope(proto), [
      ["te", "trailers"],
      ["grpc-timeout", "9S"],
    ]),
    ...call("gRPC, gzip", "application/grpc+proto", envelope(gzipSync(proto), 1), [
      ["te", "trailers"],
      ["grpc-encoding", "gzip"],
      ["grpc-accept-encoding", "br,gzip"],
    ]),
    ...call("gRPC-Web", "application/grpc-web+proto", Buffer.concat([envelope(proto), TRAILERS_END]), [
      ["x-grpc-web", "1"],
    ]),
    ...call("gRPC-Web text", "application/grpc-web-text+proto", Buffer.from(envelope(proto).toString("base64"))),
  ];
}

/** Returns the same call twice: first with a valid token, then without a token. */
export function withAndWithout(
  authorization: string,
  { name, path, type, body, more = [] }: { name: string; path: string; type: string; body: Buffer; more?: Fields },
): Ask[] {
  const ask = (title: string, credentials: Fields): Ask => ({
    name: title,
    method: "POST",
    path,
    fields: [["content-type", type], ...credentials, ...more],
    body,
  });
  return [ask(name, [["authorization", authorization]]), ask(`${name}, no token`, [])];
}

/** Returns a call that has no token. By default, the call is over gRPC. */
export function openCall(name: string, path: string, body: Buffer, type = "application/grpc", more: Fields = []): Ask {
  return { name, method: "POST", path, fields: [["content-type", type], ["te", "trailers"], ...more], body };
}

/** Maximum number of requests per HTTP/1.1 connection. */
const MAX_PIPELINED = 24;

interface Form {
  readonly isChunked?: boolean;
  readonly hasTrailers?: boolean;
  readonly expects?: boolean;
  readonly isPadded?: boolean;
}

function http1(asks: readonly Ask[], { isChunked = false, hasTrailers = false, expects = false }: Form = {}): Exchange {
  const pieces = asks.flatMap(({ method, path, fields, body }) => {
    const lines = [
      `${method} ${path} HTTP/1.1\r\n`,
      "Host: localhost\r\n",
      ...fields.map(([name, value]) => `${name}: ${value}\r\n`),
    ];
    if (expects) lines.push("Expect: 100-continue\r\n");
    if (body) lines.push(isChunked ? "Transfer-Encoding: chunked\r\n" : `Content-Length: ${body.length}\r\n`);
    const bytes = [...lines, "\r\n"].map((line) => Buffer.from(line, "latin1"));
    if (!body) return bytes;
    if (!isChunked) return [...bytes, body];
    const middle = body.length >> 1;
    const chunk = (part: Buffer) => [Buffer.from(`${part.length.toString(16)};x=y\r\n`), part, Buffer.from("\r\n")];
    const last = Buffer.from(`0\r\n${hasTrailers ? "x-trailer: a\r\n" : ""}\r\n`);
    return [...bytes, ...(middle > 0 ? chunk(body.subarray(0, middle)) : []), ...chunk(body.subarray(middle)), last];
  });
  return { name: `HTTP/1.1, ${namesOf(asks)}`, protocol: "http/1.1", pieces, answers: asks.length };
}

function http2(asks: readonly Ask[], { expects = false, isPadded = false }: Form = {}): Exchange {
  const pieces = [PREFACE, settings([3, 100], [4, 1 << 20]), numberFrame(FRAME.windowUpdate, 0, 1 << 20)];
  asks.forEach(({ method, path, fields, body }, i) => {
    const stream = i * 2 + 1;
    const block = hpackBlock([
      [":method", method],
      [":scheme", "http"],
      [":path", path],
      [":authority", "localhost"],
      ...fields,
      ...(expects ? ([["expect", "100-continue"]] as const) : []),
    ]);
    const middle = block.length >> 1;
    // Every third header block is split into two frames.
    const isCut = i % 3 === 2;
    const end = body ? 0 : FLAG.endStream;
    pieces.push(
      frame(FRAME.headers, end | (isCut ? 0 : FLAG.endHeaders), stream, isCut ? block.subarray(0, middle) : block),
    );
    if (isCut) pieces.push(frame(FRAME.continuation, FLAG.endHeaders, stream, block.subarray(middle)));
    if (!body) return;
    const half = body.length >> 1;
    pieces.push(
      data(stream, body.subarray(0, half), 0, isPadded),
      data(stream, body.subarray(half), FLAG.endStream, isPadded),
    );
  });
  pieces.push(frame(FRAME.settings, FLAG.ack, 0), frame(FRAME.ping, 0, 0, Buffer.alloc(8, 1)));
  return { name: `HTTP/2, ${namesOf(asks)}`, protocol: "h2", pieces, answers: asks.length };
}

function data(stream: number, bytes: Buffer, flags: number, isPadded: boolean): Buffer {
  if (!isPadded) return frame(FRAME.data, flags, stream, bytes);
  return frame(FRAME.data, flags | FLAG.padded, stream, Buffer.concat([Buffer.of(7), bytes, Buffer.alloc(7)]));
}

function namesOf(asks: readonly Ask[]): string {
  return asks.map(({ name }) => name).join(" + ");
}
