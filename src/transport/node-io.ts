import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import type { HeaderRecord } from "./lean-headers.ts";
import { bodyBytes, type Route, type WireRequest, type WireResponse } from "./wire.ts";

const WAIT_FOR_TRAILERS = { waitForTrailers: true };
const END_STREAM = { endStream: true };

const EMPTY = new Uint8Array(0);

/** Whether node:http joins a header and a text; Deno's does not. */
const JOINS_TEXT = !("Deno" in globalThis);

/** Longer answers cost more to make a text of than a second write costs, in bytes. */
const MAX_JOINED_BYTES = 4096;

/** How much of a request that is answered already is read to keep its HTTP/1.1 connection. */
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;

/**
 * Reads an HTTP/2 request, where its route wants the body, has it served and writes the answer.
 *
 * @param arrivalTimeoutMs how long a body of several pieces may take to arrive, in milliseconds; then the stream is
 *   reset, for one connection could keep a thousand half bodies in memory. Over HTTP/1.1 node:http sees to it
 */
export function exchangeHttp2(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  route: Route,
  arrivalTimeoutMs: number,
): void {
  const request = new Http2Request(stream, headers);
  // A stream that is reset emits an error, which is no fault of ours.
  stream.on("error", ignore);
  const onBody = (body: Uint8Array) => {
    // A stream that is reset ends as if its body were complete.
    if (stream.aborted) return;
    request.body = body;
    answer(
      route,
      request,
      (response) => writeHttp2(stream, response),
      () => stream.close(constants.NGHTTP2_INTERNAL_ERROR),
    );
  };
  if (!route.isTooLong) {
    onBody(EMPTY);
    return;
  }
  // A request may be given up before it is served.
  if (route.end) stream.once("close", () => route.end?.());
  readBody(stream, route, onBody, {
    ms: arrivalTimeoutMs,
    onTimeout: () => stream.close(constants.NGHTTP2_CANCEL),
  });
}

/** Reads an HTTP/1.1 request, where its route wants the body, has it served and writes the answer. */
export function exchangeHttp1(req: IncomingMessage, res: ServerResponse, route: Route): void {
  const request = new Http1Request(req, res);
  req.on("error", ignore);
  res.on("error", ignore);
  const onBody = (body: Uint8Array) => {
    request.body = body;
    answer(
      route,
      request,
      (response) => writeHttp1(req, res, response),
      () => res.destroy(),
    );
  };
  if (!route.isTooLong || !hasBody(req)) {
    onBody(EMPTY);
    return;
  }
  if (route.end) res.once("close", () => route.end?.());
  readBody(req, route, onBody);
}

function ignore(): void {}

/** Has a request served and its answer written; what cannot be written fails the request alone. */
function answer(route: Route, request: WireRequest, write: (response: WireResponse) => void, fail: () => void): void {
  const tryWrite = (response: WireResponse) => {
    route.end?.();
    try {
      write(response);
    } catch {
      fail();
    }
  };
  const giveUp = () => {
    route.end?.();
    fail();
  };
  try {
    route.serve(request).then(tryWrite, giveUp);
  } catch {
    giveUp();
  }
}

/** A request of node:http2. */
class Http2Request implements WireRequest {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly arrived = Date.now();
  body: Uint8Array = EMPTY;
  readonly #stream: ServerHttp2Stream;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders) {
    this.httpMethod = headers[":method"] ?? "";
    this.target = headers[":path"] ?? "/";
    this.headers = headers as HeaderRecord;
    this.#stream = stream;
  }

  url(): string {
    const authority = this.headers[":authority"] ?? this.headers["host"];
    return absoluteUrl(this.target, this.#stream.session?.encrypted === true, authority as string | undefined);
  }

  requestSignal(): AbortSignal {
    return closeSignal(this.#stream);
  }
}

/** A request of node:http. */
class Http1Request implements WireRequest {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly arrived = Date.now();
  body: Uint8Array = EMPTY;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;

  constructor(req: IncomingMessage, res: ServerResponse) {
    this.httpMethod = req.method ?? "";
    this.target = req.url ?? "/";
    this.headers = req.headers as HeaderRecord;
    this.#req = req;
    this.#res = res;
  }

  url(): string {
    return absoluteUrl(this.target, "encrypted" in this.#req.socket, this.#req.headers.host);
  }

  requestSignal(): AbortSignal {
    return closeSignal(this.#res);
  }
}

/** Whether a request has a body (RFC 9112, 6.3); one that has none need not be waited for. */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
}

function readBody(
  source: Readable,
  route: Route,
  done: (body: Uint8Array) => void,
  limit?: { readonly ms: number; readonly onTimeout: () => void },
): void {
  const chunks: Uint8Array[] = [];
  let total = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stop = () => {
    clearTimeout(timer);
    source.off("data", onData);
    source.off("end", finish);
  };
  const finish = () => {
    stop();
    const [first] = chunks;
    done(chunks.length === 1 && first ? first : Buffer.concat(chunks, total));
  };
  const onData = (chunk: Uint8Array) => {
    chunks.push(chunk);
    total += chunk.byteLength;
    if (route.isTooLong?.(chunks[0] as Uint8Array, total)) {
      source.pause();
      finish();
    } else if (limit && chunks.length === 2) {
      // Nearly all bodies are one piece, and need no timer.
      timer = setTimeout(() => {
        stop();
        limit.onTimeout();
      }, limit.ms);
      source.once("close", stop);
    }
  };
  source.on("data", onData);
  source.once("end", finish);
}

/** Writes the answer to an HTTP/2 request. */
export function writeHttp2(stream: ServerHttp2Stream, { status, headers, body, trailers }: WireResponse): void {
  if (stream.destroyed || stream.closed) return;
  headers[":status"] = status;
  // node:http2 drops it from answers to requests, and refuses to write it to a stream.
  if (headers["connection"] !== undefined) headers["connection"] = undefined;
  const isEarly = !stream.readableEnded && !stream.endAfterHeaders;
  if (!trailers && body.length === 0) {
    // A header alone: gRPC knows its status there only if the stream ends with it.
    stream.respond(headers, END_STREAM);
    stream.resume();
    // By then what came with the header has been read, so that most streams have ended by themselves.
    if (isEarly) setImmediate(() => stream.readableEnded || stream.close(constants.NGHTTP2_NO_ERROR));
    return;
  }
  if (trailers || isEarly) {
    stream.respond(headers, WAIT_FOR_TRAILERS);
    stream.once("wantTrailers", () => {
      try {
        stream.sendTrailers(trailers ?? {});
      } catch {
        // Fields that HTTP/2 forbids; thrown from here they would end the process.
        stream.close(constants.NGHTTP2_INTERNAL_ERROR);
      }
      // Whatever is still coming of the request is not wanted (RFC 9113, 8.1). Closing before the
      // last frame is sent would lose it, and node:http2 fails the process when it wants trailers then.
      if (isEarly) setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR));
    });
  } else {
    stream.respond(headers);
  }
  stream.end(bodyBytes(body));
}

/** Writes the answer to an HTTP/1.1 request, and reads what is left of it. */
export function writeHttp1(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body, trailers }: WireResponse,
): void {
  if (res.destroyed) return;
  res.writeHead(status, headers);
  if (trailers) {
    res.write(bodyBytes(body));
    res.addTrailers(trailers as { [name: string]: string });
    res.end();
  } else if (body.length <= MAX_JOINED_BYTES && JOINS_TEXT) {
    // As a text it leaves in one write with the header; in this encoding every byte is a character.
    res.end(latin1Of(body), "latin1");
  } else {
    res.end(bodyBytes(body));
  }
  if (!req.readableEnded && hasBody(req)) discardRest(req);
}

/** A text that is, in latin1, the bytes of a body. */
function latin1Of(body: Uint8Array | string): string {
  // A text of ASCII has as many bytes as characters.
  if (typeof body === "string" && Buffer.byteLength(body) === body.length) return body;
  const { buffer, byteOffset, byteLength } = bodyBytes(body);
  return Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
}

/** Reads on past what is wanted: closing a connection with bytes unread may lose the answer on its way. */
function discardRest(req: IncomingMessage): void {
  let left = MAX_DISCARDED_BYTES;
  req.on("data", (chunk: Uint8Array) => {
    left -= chunk.byteLength;
    if (left < 0) req.destroy();
  });
  req.resume();
}

/** A signal that aborts when a response's stream closes before it is answered. */
function closeSignal(stream: ServerResponse | ServerHttp2Stream): AbortSignal {
  const controller = new AbortController();
  const onClose = () => {
    if (!stream.headersSent) controller.abort(new ConnectError("the caller is gone", Code.Canceled));
  };
  if (stream.destroyed) onClose();
  else stream.once("close", onClose);
  return controller.signal;
}

function absoluteUrl(target: string, encrypted: boolean, authority: string | undefined): string {
  return new URL(target, `${encrypted ? "https" : "http"}://${authority ?? "localhost"}`).toString();
}
