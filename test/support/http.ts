import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from "node:http";
import { connect as connectHttp2, constants } from "node:http2";
import { connect as connectTcp } from "node:net";

/** A request as it is written. */
export interface HttpRequest {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Uint8Array;
}

/** What came back. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly trailers: { readonly [name: string]: unknown };
  readonly body: Buffer;
  /** The body as JSON. @throws when it is none */
  json<T>(): T;
}

/** Sends a request over HTTP/1.1; a body goes with every method. */
export function http1(url: string, target: string, options: HttpRequest = {}): Promise<HttpAnswer> {
  const { method = "GET", headers = {}, body } = options;
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
    const { hostname, port } = new URL(url);
    // The target is sent as it is: a URL would be put in order first.
    const options1 = { agent: false, hostname, port, path: target, method, headers: { ...length, ...headers } };
    const req = request(options1, (res) => {
      const chunks: Buffer[] = [];
      res.on("data", (chunk: Buffer) => chunks.push(chunk));
      res.on("error", reject);
      res.on("end", () => resolve(answer(res.statusCode, res.headers, res.trailers, chunks)));
    });
    req.on("error", reject);
    req.end(body);
  });
}

/** Sends a request over a new HTTP/2 connection. */
export function http2(url: string, target: string, options: HttpRequest = {}): Promise<HttpAnswer> {
  const { method = "GET", headers = {}, body } = options;
  return new Promise((resolve, reject) => {
    const session = connectHttp2(url);
    session.on("error", reject);
    const stream = session.request({ ":method": method, ":path": target, ...headers }, { endStream: false });
    const chunks: Buffer[] = [];
    let head: IncomingHttpHeaders & { ":status"?: number } = {};
    let trailers = {};
    stream.on("response", (received) => {
      head = received;
    });
    stream.on("trailers", (received) => {
      trailers = received;
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", reject);
    stream.on("close", () => {
      session.close();
      if (head[":status"] === undefined) reject(new Error(`reset with ${stream.rstCode}`));
      else resolve(answer(head[":status"], head, trailers, chunks));
    });
    stream.end(body);
  });
}

/** Sends bytes over TCP and gives what comes back until the connection ends, or is silent for a second after an answer. */
export function rawBytes(url: string, bytes: string | Uint8Array): Promise<Buffer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connectTcp(Number(port), hostname);
    const chunks: Buffer[] = [];
    const done = () => {
      socket.destroy();
      resolve(Buffer.concat(chunks));
    };
    socket.setTimeout(20_000, done);
    socket.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      socket.setTimeout(1000);
    });
    socket.on("error", () => {});
    socket.on("close", done);
    socket.write(bytes);
  });
}

/** A message as gRPC frames it. */
export function envelope(message: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([head, message]);
}

/** The error codes of HTTP/2. */
export const HTTP2 = constants;

function answer(
  status: number | undefined,
  headers: IncomingHttpHeaders,
  trailers: { readonly [name: string]: unknown },
  chunks: readonly Buffer[],
): HttpAnswer {
  const body = Buffer.concat(chunks);
  return { status: status ?? 0, headers, trailers, body, json: () => JSON.parse(body.toString("utf8")) };
}
