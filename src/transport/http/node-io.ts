import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type Http2Session, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { bodyBytes, type HeaderRecord, type HttpRequest, type HttpResponse, type Route } from "../exchange.ts";
import { collectBody } from "./body.ts";
import { ignore, isDisconnected } from "./disconnected.ts";
import { discardBodyHttp1, discardBodyHttp2 } from "./drain.ts";
import type { EvictionReason, MemoryBudget } from "./memory-budget.ts";
import { peerOfSession, plainAddress } from "./peers.ts";
import { trackHttp1Response, trackHttp2Response } from "./pending-responses.ts";

const WAIT_FOR_TRAILERS = { waitForTrailers: true };
const END_STREAM = { endStream: true };

const EMPTY = new Uint8Array(0);

/** Whether node:http writes headers and a string body in one piece. Deno's does not. */
const MERGES_TEXT_WITH_HEADER = !("Deno" in globalThis);

/**
 * The longest body that is converted to a string, in bytes. For longer ones the conversion costs more than a second
 * write.
 */
const MAX_MERGED_BYTES = 4096;

/** What all exchanges share. */
export interface ExchangeContext {
  /** For bodies that are being received. */
  readonly bodies: MemoryBudget;
  /** For the unread rest of requests that are already answered. */
  readonly discards: MemoryBudget;
  /** For responses that are being written. */
  readonly answers: MemoryBudget;
  /** Makes the response to a request whose body was evicted. */
  readonly refuseEvicted: (reason: EvictionReason, headers: HeaderRecord) => HttpResponse;
  /** Called with unexpected errors. */
  readonly onError: ((error: unknown) => void) | undefined;
}

/** Reads the body of an HTTP/2 request if its route wants it, serves the request and writes the response. */
export function exchangeHttp2(
  stream: ServerHttp2Stream,
  request: HttpRequest,
  route: Route,
  context: ExchangeContext,
): void {
  // A stream reset by the client emits an error that needs no handling.
  stream.on("error", ignore);
  const write = (response: HttpResponse) => {
    // Frees the body: the rest of the request may still arrive, but nobody needs it.
    request.body = EMPTY;
    writeHttp2(stream, response, context);
  };
  const fail = (error: unknown) => failHttp2(stream, error, context);
  const onBody = (body: Uint8Array) => {
    // A stream reset by the client emits `end` as if its body were complete.
    if (stream.aborted) return;
    request.body = body;
    answer(route, request, write, fail);
  };
  if (!route.isTooLong) {
    onBody(EMPTY);
    return;
  }
  const onEvicted = (reason: EvictionReason) => refuse(reason, request, { write, fail, context });
  collectBody(stream, { route, bodies: context.bodies, connection: stream.session ?? stream }, { onBody, onEvicted });
}

/** Reads the body of an HTTP/1.1 request if its route wants it, serves the request and writes the response. */
export function exchangeHttp1(
  req: IncomingMessage,
  res: ServerResponse,
  request: HttpRequest,
  route: Route,
  context: ExchangeContext,
): void {
  req.on("error", ignore);
  res.on("error", ignore);
  const write = (response: HttpResponse) => {
    request.body = EMPTY;
    writeHttp1(req, res, response, context);
  };
  const fail = (error: unknown) => failHttp1(res, error, context);
  const onBody = (body: Uint8Array) => {
    request.body = body;
    answer(route, request, write, fail);
  };
  if (!route.isTooLong || !hasBody(req)) {
    onBody(EMPTY);
    return;
  }
  const onEvicted = (reason: EvictionReason) =>
    refuse(reason, request, { write: (response) => write(closing(response)), fail, context });
  collectBody(req, { route, bodies: context.bodies, connection: req.socket }, { onBody, onEvicted });
}

/** Serves a request and writes the response. A response that cannot be written fails only this request. */
function answer(
  route: Route,
  request: HttpRequest,
  write: (response: HttpResponse) => void,
  fail: (error: unknown) => void,
): void {
  const tryWrite = (response: HttpResponse) => {
    route.end?.();
    try {
      write(response);
    } catch (error) {
      fail(error);
    }
  };
  const giveUp = (error: unknown) => {
    route.end?.();
    fail(error);
  };
  try {
    route.serve(request).then(tryWrite, giveUp);
  } catch (error) {
    giveUp(error);
  }
}

/**
 * Refuses a request whose body was evicted. That happens on timers and while other requests are read, so an exception
 * would end the process or fail another request.
 */
function refuse(
  reason: EvictionReason,
  { headers }: HttpRequest,
  to: {
    readonly write: (response: HttpResponse) => void;
    readonly fail: (error: unknown) => void;
    readonly context: ExchangeContext;
  },
): void {
  try {
    to.write(to.context.refuseEvicted(reason, headers));
  } catch (error) {
    to.fail(error);
  }
}

/** Resets an HTTP/2 stream because of an unexpected error. */
export function failHttp2(
  stream: ServerHttp2Stream,
  error: unknown,
  { onError }: Pick<ExchangeContext, "onError">,
): void {
  const isConnected = !isDisconnected(stream);
  stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  if (isConnected) onError?.(error);
}

/** Closes an HTTP/1.1 connection because of an unexpected error. */
export function failHttp1(res: ServerResponse, error: unknown, { onError }: Pick<ExchangeContext, "onError">): void {
  const isConnected = !isDisconnected(res);
  res.destroy();
  if (isConnected) onError?.(error);
}

/** Adds the header after which the HTTP/1.1 connection closes. */
export function closing(response: HttpResponse): HttpResponse {
  return { ...response, headers: { ...response.headers, connection: "close" } };
}

/** A request over HTTP/2. */
export class Http2Request implements HttpRequest {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly arrived = Date.now();
  body: Uint8Array = EMPTY;
  readonly #stream: ServerHttp2Stream;
  /** A stream that has ended has no session any more. */
  readonly #session: Http2Session | undefined;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders) {
    this.httpMethod = headers[":method"] ?? "";
    this.target = headers[":path"] ?? "/";
    this.headers = headers as HeaderRecord;
    this.#stream = stream;
    this.#session = stream.session;
  }

  peerAddress(): string {
    return peerOfSession(this.#session);
  }

  url(): string {
    const authority = this.headers[":authority"] ?? this.headers["host"];
    return absoluteUrl(this.target, this.#stream.session?.encrypted === true, authority as string | undefined);
  }

  requestSignal(): AbortSignal {
    return closeSignal(this.#stream);
  }
}

/** A request over HTTP/1.1. */
export class Http1Request implements HttpRequest {
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

  peerAddress(): string {
    return plainAddress(this.#req.socket.remoteAddress);
  }

  url(): string {
    return absoluteUrl(this.target, "encrypted" in this.#req.socket, this.#req.headers.host);
  }

  requestSignal(): AbortSignal {
    return closeSignal(this.#res);
  }
}

/** Whether a request has a body (RFC 9112, 6.3). */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
}

/**
 * Writes the response to an HTTP/2 request. This may happen before the body is read; up to 16 MiB of the rest is
 * discarded.
 */
export function writeHttp2(
  stream: ServerHttp2Stream,
  { status, headers, body, trailers }: HttpResponse,
  context: ExchangeContext,
): void {
  if (stream.destroyed || stream.closed) return;
  headers[":status"] = status;
  // HTTP/2 has no `Connection` header. node:http2 drops it from responses of its request API but throws on streams.
  if (headers["connection"] !== undefined) headers["connection"] = undefined;
  if (!trailers && body.length === 0) {
    // A gRPC client accepts a status in the headers only if they end the stream.
    stream.respond(headers, END_STREAM);
  } else if (trailers) {
    stream.respond(headers, WAIT_FOR_TRAILERS);
    stream.once("wantTrailers", () => {
      try {
        stream.sendTrailers(trailers);
      } catch (error) {
        // HTTP/2 forbids one of the trailers. An exception that escapes from here would end the process.
        failHttp2(stream, error, context);
      }
    });
  } else {
    stream.respond(headers);
  }
  // A response to HEAD, or with a status without a body, has already ended.
  if (!stream.writableEnded) {
    if (body.length > 0) {
      const bytes = bodyBytes(body);
      stream.write(bytes, trackHttp2Response(stream, bytes.byteLength, context.answers));
    }
    stream.end();
  }
  if (!stream.readableEnded) discardBodyHttp2(stream, context.discards);
}

/**
 * Writes the response to an HTTP/1.1 request. This may happen before the body is read; up to 16 MiB of the rest is
 * discarded.
 */
export function writeHttp1(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body, trailers }: HttpResponse,
  { answers }: Pick<ExchangeContext, "answers">,
): void {
  const { socket } = req;
  // node:http does not tell a response that is queued in a pipeline when its connection closes.
  if (res.destroyed || socket.destroyed) return;
  res.writeHead(status, headers);
  if (trailers) {
    res.write(bodyBytes(body));
    res.addTrailers(trailers as { [name: string]: string });
    res.end();
  } else if (body.length <= MAX_MERGED_BYTES && MERGES_TEXT_WITH_HEADER) {
    // node:http sends a string in one write with the headers. In latin1 every byte is one character.
    res.end(latin1Of(body), "latin1");
  } else {
    res.end(bodyBytes(body));
  }
  // The kernel takes most responses at once. A response that is queued in a pipeline has no socket yet.
  if (res.socket === null || socket.writableLength > 0) {
    if (!res.writableFinished) trackHttp1Response(socket, res, body.length, answers);
  }
  if (!req.readableEnded && hasBody(req)) discardBodyHttp1(req);
}

/** A string whose latin1 encoding is the body. */
function latin1Of(body: Uint8Array | string): string {
  // An ASCII string has as many bytes as characters.
  if (typeof body === "string" && Buffer.byteLength(body) === body.length) return body;
  const { buffer, byteOffset, byteLength } = bodyBytes(body);
  return Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
}

/** A signal that aborts when the client disconnects before the response begins. */
function closeSignal(stream: ServerResponse | ServerHttp2Stream): AbortSignal {
  const controller = new AbortController();
  const onClose = () => {
    if (!stream.headersSent) controller.abort(new ConnectError("the client disconnected", Code.Canceled));
  };
  if (stream.destroyed) onClose();
  else stream.once("close", onClose);
  return controller.signal;
}

function absoluteUrl(target: string, encrypted: boolean, authority: string | undefined): string {
  return new URL(target, `${encrypted ? "https" : "http"}://${authority ?? "localhost"}`).toString();
}
