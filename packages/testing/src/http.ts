import { once } from "node:events";
import {
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
} from "node:http";
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2 } from "node:http2";
import { buffer } from "node:stream/consumers";
import { openTcp } from "./attacks/wire.ts";

export interface HttpRequest {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Uint8Array;
  /**
   * The agent that opens and reuses HTTP/1.1 connections. If undefined, each request opens a new connection. HTTP/2
   * requests ignore this option.
   */
  readonly agent?: Agent;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly trailers: { readonly [name: string]: unknown };
  readonly body: Buffer;
  /** @throws if the body is not JSON */
  json<T>(): T;
}

/** Sends a request over HTTP/1.1. A GET can have a body. */
export function http1(url: string, target: string, options: HttpRequest = {}): Promise<HttpAnswer> {
  const { method = "GET", headers = {}, body, agent = false } = options;
  const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
  const { protocol, hostname, port } = new URL(url);
  // A URL object would normalize the target, but tests need the unchanged target.
  const where = { protocol, hostname, port, path: target };
  const req = request({ ...where, agent, method, headers: { ...length, ...headers } });
  const answered = answerTo(req);
  req.end(body);
  return answered;
}

/** Waits for the complete response, even if the request body is still incomplete. */
export async function answerTo(req: ClientRequest): Promise<HttpAnswer> {
  req.on("error", () => {});
  const [res] = (await once(req, "response")) as [IncomingMessage];
  const body = await buffer(res);
  return answer(res.statusCode, res.headers, res.trailers, body);
}

/** Opens an HTTP/2 connection that accepts every server certificate. The streams report errors of the connection. */
export function openHttp2(url: string): ClientHttp2Session {
  return connectHttp2(url, { rejectUnauthorized: false }).on("error", () => {});
}

/**
 * Waits until the server answers a PING. Because frames arrive in order, the server has then read all frames that were
 * sent before the PING.
 *
 * @throws if the connection ends before the answer
 */
export async function pinged(session: ClientHttp2Session): Promise<void> {
  // Node cancels PINGs of a connection that is not ready yet.
  if (session.connecting) await once(session, "connect");
  await new Promise<void>((resolve, reject) => {
    session.ping((error) => (error ? reject(error) : resolve()));
  });
}

/** Sends a request over an open HTTP/2 connection. @throws if the stream is reset before the response */
export async function http2On(
  session: ClientHttp2Session,
  target: string,
  { method = "GET", headers = {}, body }: HttpRequest = {},
): Promise<HttpAnswer> {
  const stream = session.request({ ":method": method, ":path": target, ...headers }, { endStream: false });
  stream.end(body);
  return answerOn(stream);
}

/**
 * Waits for the response on a stream.
 *
 * @param until `end` waits for the end of the response. `close` also waits for the end of the request
 * @throws if the stream fails or is reset before the response
 */
export function answerOn(stream: ClientHttp2Stream, until: "end" | "close" = "close"): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
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
    stream.on(until, () => {
      if (head[":status"] === undefined) reject(new Error(`reset with ${stream.rstCode}`));
      else resolve(answer(head[":status"], head, trailers, Buffer.concat(chunks)));
    });
  });
}

/** Opens an HTTP/2 connection, passes it to `use`, and closes it. */
export async function overHttp2<T>(url: string, use: (session: ClientHttp2Session) => Promise<T>): Promise<T> {
  const session = openHttp2(url);
  try {
    return await use(session);
  } finally {
    session.destroy();
  }
}

export function http2(url: string, target: string, options?: HttpRequest): Promise<HttpAnswer> {
  return overHttp2(url, (session) => http2On(session, target, options));
}

/**
 * Sends bytes over TCP and returns the received bytes. Stops reading after 20 s.
 *
 * @param isEnough is called with all bytes that were received so far, and returns true to stop reading. By default,
 * reading stops when the server closes the connection
 * @returns `ended` is true if the connection was closed before reading stopped
 */
export async function rawBytes(
  url: string,
  sent: string | Uint8Array,
  isEnough: (soFar: Buffer) => boolean = () => false,
): Promise<{ readonly bytes: Buffer; readonly ended: boolean }> {
  const wire = await openTcp(url);
  wire.push(sent);
  const signal = AbortSignal.any([wire.ended, AbortSignal.timeout(20_000)]);
  while (!signal.aborted && !isEnough(wire.received())) await once(wire.socket, "data", { signal }).catch(() => {});
  wire.close();
  return { bytes: wire.received(), ended: wire.isClosed };
}

/** Puts a message into a gRPC envelope: one byte of flags and four bytes of length, followed by the message. */
export function envelope(message: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([head, message]);
}

function answer(
  status: number | undefined,
  headers: IncomingHttpHeaders,
  trailers: { readonly [name: string]: unknown },
  body: Buffer,
): HttpAnswer {
  return { status: status ?? 0, headers, trailers, body, json: () => JSON.parse(body.toString("utf8")) };
}
