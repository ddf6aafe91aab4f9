import { once } from "node:events";
import { type Agent, type ClientRequest, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from "node:http";
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, constants } from "node:http2";
import { connect as connectTcp } from "node:net";

/** A request as it is written. */
export interface HttpRequest {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Uint8Array;
  /** Of HTTP/1.1 alone. Default: a connection of its own. */
  readonly agent?: Agent;
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
  const { method = "GET", headers = {}, body, agent = false } = options;
  const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
  const { protocol, hostname, port } = new URL(url);
  // The target is sent as it is: a URL would be put in order first.
  const where = { protocol, hostname, port, path: target };
  const req = request({ ...where, agent, method, headers: { ...length, ...headers } });
  const answered = answerTo(req);
  req.end(body);
  return answered;
}

/** The answer to a request over HTTP/1.1, whose body need not be over. */
export function answerTo(req: ClientRequest): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    req.on("error", reject);
    req.on("response", (res) => {
      const chunks: Buffer[] = [];
      res.on("data", (chunk: Buffer) => chunks.push(chunk));
      res.on("error", reject);
      res.on("end", () => resolve(answer(res.statusCode, res.headers, res.trailers, chunks)));
    });
  });
}

/** An HTTP/2 connection that trusts everybody; when it fails, its streams do. */
export function openHttp2(url: string): ClientHttp2Session {
  return connectHttp2(url, { rejectUnauthorized: false }).on("error", () => {});
}

/** Waits until the server answers a PING, and so has read what came before it. @throws when the connection ends */
export async function pinged(session: ClientHttp2Session): Promise<void> {
  // Before, a PING would be given up at once.
  if (session.connecting) await once(session, "connect");
  await new Promise<void>((resolve, reject) => {
    session.ping((error) => (error ? reject(error) : resolve()));
  });
}

/** Sends a request over an HTTP/2 connection. @throws when it is reset before it is answered */
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
 * The answer on a stream.
 *
 * @param until what it is waited for: the end of the answer, or of the stream, whose request must be over then, too
 * @throws when the stream fails or is reset before it is answered
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
      else resolve(answer(head[":status"], head, trailers, chunks));
    });
  });
}

/** Sends a request over a new HTTP/2 connection. */
export async function http2(url: string, target: string, options: HttpRequest = {}): Promise<HttpAnswer> {
  const session = openHttp2(url);
  try {
    return await http2On(session, target, options);
  } finally {
    session.destroy();
  }
}

/** What came back over TCP. */
export interface RawAnswer {
  readonly bytes: Buffer;
  /** Whether the server ended the connection. */
  readonly ended: boolean;
}

/**
 * Sends bytes over TCP and gives what comes back, until the server ends the
 * connection or it is enough.
 *
 * @param isEnough looks at all that came so far; default: never
 * @param patienceMs how long to wait in vain, in milliseconds
 */
export function rawBytes(
  url: string,
  sent: string | Uint8Array,
  isEnough: (soFar: Buffer) => boolean = () => false,
  patienceMs = 20_000,
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connectTcp(Number(port), hostname);
    let bytes: Buffer = Buffer.alloc(0);
    const done = (ended: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ bytes, ended });
    };
    const timer = setTimeout(() => done(false), patienceMs);
    socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (isEnough(bytes)) done(false);
    });
    socket.on("error", () => {});
    socket.on("close", () => done(true));
    if (sent.length > 0) socket.write(sent);
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
