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

/** Bytes of a valid exchange, as one end of a connection sends them. */
export interface Exchange {
  readonly name: string;
  readonly protocol: "h2" | "http/1.1";
  /** Frames of HTTP/2, or lines and bodies of HTTP/1.1. */
  readonly pieces: readonly Buffer[];
  /** How many answers come. */
  readonly answers: number;
}

type Fields = readonly (readonly [string, string])[];

const RPC = "/usergroup.v1.UserGroupService";
const GET = `${RPC}/GetUserGroup`;
const ID = Buffer.from("\n\u0004fuzz", "latin1");
const JSON_ID = Buffer.from('{"userGroupId":"fuzz"}');
const REST_BODY = Buffer.from('{"user_group_id":"fuzz","name":"Fuzz","properties":{"a":[1,null]}}');
const TRAILERS_END = Buffer.from([0x80, 0, 0, 0, 0]);

/** One request, in the terms of both protocols. */
interface Ask {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly fields: Fields;
  readonly body?: Buffer;
}

/** Every exchange; those that need a caller's token also stand there without it. */
export function exchanges(token: string): Exchange[] {
  const asks = [...withToken(token), ...open()];
  const single = asks.flatMap((ask) => [http1([ask]), http1([ask], { isChunked: true }), http2([ask])]);
  const [first, second, third] = asks as [Ask, Ask, Ask];
  const several = [
    http1([first, second, third]),
    http1(asks.filter(({ path }) => path === "/healthz" || path === GET)),
    http2([first, second, third]),
    http2(asks.slice(0, 12)),
    http2([third], { expects: true }),
    http1([third], { expects: true }),
    http1([third], { isChunked: true, hasTrailers: true }),
    http2([first, second], { isPadded: true }),
  ];
  return [...single, ...several];
}

function withToken(token: string): Ask[] {
  const auth: Fields = [["authorization", `Token ${token}`]];
  const ask = (name: string, path: string, type: string, body: Buffer, more: Fields = []): Ask[] =>
    [auth, []].map((credentials) => ({
      name: credentials.length > 0 ? name : `${name}, no token`,
      method: "POST",
      path,
      fields: [["content-type", type], ...credentials, ...more],
      body,
    }));
  return [
    { name: "REST GET", method: "GET", path: "/api/user?user_group_id=fuzz&name=F%C3%A9", fields: auth },
    { name: "REST PUT", method: "PUT", path: "/api/user", fields: auth, body: REST_BODY },
    {
      name: "REST PUT, gzip",
      method: "PUT",
      path: "/api/user",
      fields: [...auth, ["content-encoding", "gzip"]],
      body: gzipSync(REST_BODY),
    },
    {
      name: "REST POST",
      method: "POST",
      path: "/api/user",
      fields: [...auth, ["idempotency-key", "k1"]],
      body: Buffer.from('{"user_group_id":"fuzz","previous_token_ttl":"1s"}'),
    },
    ...ask("Connect JSON", GET, "application/json", JSON_ID, [
      ["connect-protocol-version", "1"],
      ["connect-timeout-ms", "9000"],
    ]),
    ...ask(
      "Connect proto",
      `${RPC}/UpdateUserGroup`,
      "application/proto",
      Buffer.concat([ID, Buffer.from("\x12\x01F")]),
    ),
    ...ask("Connect proto, gzip", GET, "application/proto", gzipSync(ID), [
      ["content-encoding", "gzip"],
      ["accept-encoding", "br, gzip"],
    ]),
    ...ask("gRPC", GET, "application/grpc", envelope(ID), [
      ["te", "trailers"],
      ["grpc-timeout", "9S"],
    ]),
    ...ask("gRPC, gzip", GET, "application/grpc+proto", envelope(gzipSync(ID), 1), [
      ["te", "trailers"],
      ["grpc-encoding", "gzip"],
      ["grpc-accept-encoding", "br,gzip"],
    ]),
    ...ask("gRPC-Web", GET, "application/grpc-web+proto", Buffer.concat([envelope(ID), TRAILERS_END]), [
      ["x-grpc-web", "1"],
    ]),
    ...ask("gRPC-Web text", GET, "application/grpc-web-text+proto", Buffer.from(envelope(ID).toString("base64"))),
    ...ask(
      "ResolveViewer",
      "/usergroup.v1.ViewerService/ResolveViewer",
      "application/json",
      Buffer.from(`{"token":"ugt_${"0".repeat(38)}"}`),
    ),
    // A caller whose role is too low.
    ...ask(
      "AdminService",
      "/usergroup.admin.v1.AdminService/CreateApiToken",
      "application/proto",
      Buffer.from([24, 1]),
    ),
  ];
}

function open(): Ask[] {
  const reflection = envelope(Buffer.from('"\u001dusergroup.v1.UserGroupService', "latin1"));
  const type = (value: string): Fields => [
    ["content-type", value],
    ["te", "trailers"],
  ];
  return [
    { name: "healthz", method: "GET", path: "/healthz", fields: [] },
    { name: "readyz", method: "HEAD", path: "/readyz", fields: [] },
    { name: "metrics", method: "GET", path: "/metrics", fields: [["accept-encoding", "gzip"]] },
    {
      name: "preflight",
      method: "OPTIONS",
      path: GET,
      fields: [
        ["origin", "https://a.example"],
        ["access-control-request-method", "POST"],
        ["access-control-request-headers", "authorization,content-type"],
      ],
    },
    {
      name: "Health/Check",
      method: "POST",
      path: "/grpc.health.v1.Health/Check",
      fields: type("application/grpc"),
      body: envelope(Buffer.alloc(0)),
    },
    {
      name: "Health/Watch",
      method: "POST",
      path: "/grpc.health.v1.Health/Watch",
      fields: type("application/grpc"),
      body: envelope(Buffer.alloc(0)),
    },
    {
      name: "Health/Watch, Connect",
      method: "POST",
      path: "/grpc.health.v1.Health/Watch",
      fields: type("application/connect+json"),
      body: envelope(Buffer.from("{}")),
    },
    {
      name: "reflection",
      method: "POST",
      path: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
      fields: [...type("application/grpc"), ["grpc-accept-encoding", "br"]],
      body: Buffer.concat([reflection, reflection]),
    },
    {
      name: "unknown method",
      method: "POST",
      path: `${RPC}/Unknown`,
      fields: type("application/grpc"),
      body: envelope(ID),
    },
    { name: "unknown path", method: "GET", path: "/nothing", fields: [] },
  ];
}

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
    // Some blocks come in two pieces.
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
