import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import type { HeaderRecord } from "./lean-headers.ts";
import type { IsTooLong, Route, WireRequest, WireResponse } from "./wire.ts";

const WAIT_FOR_TRAILERS = { waitForTrailers: true };

const EMPTY = new Uint8Array(0);

/** Whether node:http joins a header and a text; Deno's does not. */
const JOINS_TEXT = !("Deno" in globalThis);

/** Longer answers cost more to make a text of than a second write costs, in bytes. */
const MAX_JOINED_BYTES = 4096;

/** How much of a request that is answered already is read to keep its HTTP/1.1 connection. */
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;

/**
 * Reads an HTTP/2 request, has it served and writes the answer.
 *
 * @param arrivalTimeoutMs how long a body of several pieces may take to arrive, in milliseconds; then the stream is
 *   reset, for one connection could keep a thousand half bodies in memory. Over HTTP/1.1 node:http sees to it
 */
export function exchangeHttp2(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  { isTooLong, serve }: Route,
  arrivalTimeoutMs: number,
): void {
  const arrived = Date.now();
  // A stream that is reset emits an error, which is no fault of ours.
  stream.on("error", () => {});
  const onBody = (body: Uint8Array) => {
    // A stream that is reset ends as if its body were complete.
    if (stream.aborted) return;
    const { ":authority": authority = headers.host, ":path": path = "/" } = headers;
    const request: WireRequest = {
      httpMethod: headers[":method"] ?? "",
      target: path,
      headers: headers as HeaderRecord,
      body,
      arrived,
      url: () => absoluteUrl(path, stream.session?.encrypted === true, authority),
      requestSignal: () => closeSignal(stream),
    };
    serve(request)
      .then((response) => writeHttp2(stream, response))
      .catch(() => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
  };
  readBody(stream, isTooLong, onBody, {
    ms: arrivalTimeoutMs,
    onTimeout: () => stream.close(constants.NGHTTP2_CANCEL),
  });
}

/** Reads an HTTP/1.1 request, has it served and writes the answer. */
export function exchangeHttp1(req: IncomingMessage, res: ServerResponse, { isTooLong, serve }: Route): void {
  const arrived = Date.now();
  req.on("error", () => {});
  res.on("error", () => {});
  const onBody = (body: Uint8Array) => {
    const target = req.url ?? "/";
    const request: WireRequest = {
      httpMethod: req.method ?? "",
      target,
      headers: req.headers as HeaderRecord,
      body,
      arrived,
      url: () => absoluteUrl(target, "encrypted" in req.socket, req.headers.host),
      requestSignal: () => closeSignal(res),
    };
    serve(request)
      .then((response) => writeHttp1(req, res, response))
      .catch(() => res.destroy());
  };
  if (hasBody(req)) readBody(req, isTooLong, onBody);
  else onBody(EMPTY);
}

/** Whether a request has a body (RFC 9112, 6.3); one that has none need not be waited for. */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
}

function readBody(
  source: Readable,
  isTooLong: IsTooLong,
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
    if (isTooLong(chunks[0] as Uint8Array, total)) {
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
  const isEarly = !stream.readableEnded;
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
  stream.end(body);
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
    res.write(body);
    res.addTrailers(trailers as { [name: string]: string });
    res.end();
  } else if (body.byteLength <= MAX_JOINED_BYTES && JOINS_TEXT) {
    // As a text it leaves in one write with the header; in this encoding every byte is a character.
    res.end(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("latin1"), "latin1");
  } else {
    res.end(body);
  }
  if (!req.readableEnded && hasBody(req)) discardRest(req);
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
