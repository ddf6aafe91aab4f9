import { type ClientHttp2Session, constants, type IncomingHttpHeaders } from "node:http2";
import { connect as connectTcp } from "node:net";

export type FieldList = readonly (readonly [name: string, value: string])[];

export interface RawRequest {
  readonly http: 1 | 2;
  readonly method: string;
  readonly target: string;
  readonly headers: FieldList;
  readonly body: Uint8Array;
  readonly withLength: boolean;
  /** The positions at which the body is split into pieces. The pieces are written separately. */
  readonly cuts?: readonly number[];
  /** Trailers after the body. Over HTTP/1.1, a request has either trailers or a declared length. */
  readonly trailers?: FieldList;
}

export interface RawAnswer {
  /** The HTTP status; 0 if no answer arrives. */
  readonly status: number;
  /** The header fields, sorted. The date is omitted. */
  readonly headers: readonly string[];
  readonly body: Buffer;
  readonly trailers: readonly string[];
  /** The statuses of informational answers before the final answer. */
  readonly informational: readonly number[];
  readonly end: "complete" | "reset" | "nothing came";
}

/** The longest wait for an answer, in milliseconds. After this time, the answer counts as missing. */
const PATIENCE_MS = 5_000;

/** The longest time that a stream may stay open after the answer, in milliseconds. */
const AFTER_ANSWER_MS = 20;

export function sendHttp1(url: string, request: RawRequest): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connectTcp(Number(port), hostname);
    const chunks: Buffer[] = [];
    const done = (hung: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(parseHttp1(Buffer.concat(chunks).toString("latin1"), hung));
    };
    const timer = setTimeout(() => done(true), PATIENCE_MS);
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("error", () => {});
    socket.on("close", () => done(false));
    for (const piece of http1Pieces(request)) socket.write(piece);
  });
}

export function http1Pieces(request: RawRequest): Buffer[] {
  const { method, target, headers, body, withLength, trailers = [] } = request;
  const names = new Set(headers.map(([name]) => name.toLowerCase()));
  const fields = [...headers];
  if (!names.has("host")) fields.unshift(["Host", "differential.test"]);
  if (!names.has("connection")) fields.push(["Connection", "close"]);
  const ownLength = names.has("content-length");
  const chunked = !withLength && !ownLength;
  if (chunked) fields.push(["Transfer-Encoding", "chunked"]);
  else if (!ownLength) fields.push(["Content-Length", String(body.byteLength)]);
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const head = Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines}\r\n`, "latin1");
  if (!chunked) return [head, ...piecesOf(request)];
  const data = piecesOf(request).filter((piece) => piece.byteLength > 0);
  const end = `0\r\n${trailers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
  return [
    head,
    ...data.map((piece) =>
      Buffer.concat([Buffer.from(`${piece.byteLength.toString(16)}\r\n`), piece, Buffer.from("\r\n")]),
    ),
    Buffer.from(end, "latin1"),
  ];
}

function piecesOf({ body, cuts = [] }: RawRequest): Buffer[] {
  const places = [0, ...cuts.filter((at) => at > 0 && at < body.byteLength).sort((a, b) => a - b), body.byteLength];
  return places.slice(1).map((end, i) => Buffer.from(body.subarray(places[i], end)));
}

function parseHttp1(text: string, hung: boolean): RawAnswer {
  const informational: number[] = [];
  let rest = text;
  for (;;) {
    const headEnd = rest.indexOf("\r\n\r\n");
    if (headEnd < 0) {
      return {
        status: 0,
        headers: [],
        body: Buffer.alloc(0),
        trailers: [],
        informational,
        end: hung ? "nothing came" : "reset",
      };
    }
    const [first = "", ...lines] = rest.slice(0, headEnd).split("\r\n");
    rest = rest.slice(headEnd + 4);
    const status = Number(first.split(" ")[1]);
    if (status >= 200) {
      const headers = fieldsOf(lines);
      const { body, trailers, complete } = parseBody(rest, headers);
      return {
        status,
        headers,
        body: Buffer.from(body, "latin1"),
        trailers,
        informational,
        end: complete ? "complete" : "reset",
      };
    }
    informational.push(status);
  }
}

function parseBody(text: string, headers: readonly string[]) {
  const length = headers.find((line) => line.startsWith("content-length: "));
  if (!headers.includes("transfer-encoding: chunked")) {
    const complete = length === undefined || text.length === Number(length.slice(16));
    return { body: text, trailers: [], complete };
  }
  let body = "";
  let at = 0;
  for (;;) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd < 0) return { body, trailers: [], complete: false };
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    at = lineEnd + 2;
    if (size === 0) break;
    body += text.slice(at, at + size);
    at += size + 2;
  }
  const trailers = fieldsOf(text.slice(at).split("\r\n").filter(Boolean));
  return { body, trailers, complete: text.endsWith("\r\n\r\n") };
}

function fieldsOf(lines: readonly string[]): string[] {
  return lines
    .map((line) => `${line.slice(0, line.indexOf(":")).toLowerCase()}${line.slice(line.indexOf(":"))}`)
    .filter((line) => !line.startsWith("date:"))
    .sort();
}

export function sendHttp2(session: ClientHttp2Session, request: RawRequest): Promise<RawAnswer> {
  const { method, target, body, withLength, trailers } = request;
  const fields: { [name: string]: string | string[] } = { ":method": method, ":path": target };
  for (const [name, value] of request.headers) {
    const known = fields[name.toLowerCase()];
    fields[name.toLowerCase()] = known === undefined ? value : [known, value].flat();
  }
  if (withLength && fields["content-length"] === undefined) fields["content-length"] = String(body.byteLength);
  return new Promise((resolve) => {
    const stream = session.request(fields, { endStream: false, waitForTrailers: trailers !== undefined });
    let head: IncomingHttpHeaders = {};
    let tail: IncomingHttpHeaders = {};
    let ended = false;
    const informational: number[] = [];
    const chunks: Buffer[] = [];
    const done = (hung: boolean) => {
      clearTimeout(timer);
      resolve({
        status: Number(head[":status"] ?? 0),
        headers: linesOf(head),
        body: Buffer.concat(chunks),
        trailers: linesOf(tail),
        informational,
        end: hung ? "nothing came" : ended && stream.rstCode === constants.NGHTTP2_NO_ERROR ? "complete" : "reset",
      });
      stream.close(constants.NGHTTP2_CANCEL);
    };
    const timer = setTimeout(() => done(true), PATIENCE_MS);
    stream.on("headers", (fields) => informational.push(Number(fields[":status"])));
    stream.on("response", (fields) => {
      head = fields;
    });
    stream.on("trailers", (fields) => {
      tail = fields;
    });
    stream.on("wantTrailers", () => stream.sendTrailers(Object.fromEntries(trailers ?? [])));
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      ended = true;
      // Do not wait for the rest of the upload, because not every server reads the rest.
      setTimeout(() => done(false), AFTER_ANSWER_MS);
    });
    stream.on("error", () => {});
    stream.on("close", () => done(false));
    for (const piece of piecesOf(request)) if (piece.byteLength > 0) stream.write(piece);
    stream.end();
  });
}

function linesOf(fields: IncomingHttpHeaders): string[] {
  return Object.entries(fields)
    .filter(([name]) => !name.startsWith(":") && name !== "date")
    .flatMap(([name, value]) => [value].flat().map((one) => `${name}: ${one}`))
    .sort();
}

/** Writes bytes to a new connection, and waits until the server has closed the connection. */
export function writeTo(url: string, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    const socket = connectTcp(Number(new URL(url).port), "127.0.0.1");
    socket.on("error", () => {});
    socket.once("close", () => resolve());
    socket.resume();
    socket.end(bytes);
  });
}
