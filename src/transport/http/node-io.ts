import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { bodyBytes, type HeaderRecord, type HttpRequest, type HttpResponse, type Route } from "../exchange.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { holdHttp1Answer, holdHttp2Answer } from "./answers.ts";
import { collectBody } from "./body.ts";
import type { Refuse } from "./dispatch.ts";
import { dropRestHttp1, dropRestHttp2 } from "./drain.ts";
import type { GiveUpReason, Holdings } from "./holdings.ts";
import { REQUEST_TIMEOUT } from "./limits.ts";

const WAIT_FOR_TRAILERS = { waitForTrailers: true };
const END_STREAM = { endStream: true };

const EMPTY = new Uint8Array(0);

/** Whether node:http joins a header and a text; Deno's does not. */
const JOINS_TEXT = !("Deno" in globalThis);

/** Longer answers cost more to make a text of than a second write costs, in bytes. */
const MAX_JOINED_BYTES = 4096;

/** What exchanges share: the bounds of what they hold. */
export interface ExchangeLimits {
  /** Bodies that are arriving. */
  readonly bodies: Holdings;
  /** What is still coming of requests that are answered. */
  readonly rests: Holdings;
  /** Answers that are being written. */
  readonly answers: Holdings;
  /** Answers a request whose body did not arrive in time, or for which there is no room. Default: none does. */
  readonly refuse?: Refuse | undefined;
}

/** Reads an HTTP/2 request, where its route wants the body, has it served and writes the answer. */
export function exchangeHttp2(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  route: Route,
  limits: ExchangeLimits,
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
      (response) => {
        // The rest of the request may still be coming; what has come is not needed any more.
        request.body = EMPTY;
        writeHttp2(stream, response, limits);
      },
      () => stream.close(constants.NGHTTP2_INTERNAL_ERROR),
    );
  };
  if (!route.isTooLong) {
    onBody(EMPTY);
    return;
  }
  // A request may be given up before it is served.
  if (route.end) stream.once("close", () => route.end?.());
  const onGivenUp = (reason: GiveUpReason) => {
    if (limits.refuse) writeHttp2(stream, limits.refuse(GIVEN_UP[reason], request.headers), limits);
    else stream.close(constants.NGHTTP2_CANCEL);
  };
  collectBody(stream, { route, bodies: limits.bodies, connection: stream.session ?? stream }, { onBody, onGivenUp });
}

/** Reads an HTTP/1.1 request, where its route wants the body, has it served and writes the answer. */
export function exchangeHttp1(req: IncomingMessage, res: ServerResponse, route: Route, limits: ExchangeLimits): void {
  const request = new Http1Request(req, res);
  req.on("error", ignore);
  res.on("error", ignore);
  const onBody = (body: Uint8Array) => {
    request.body = body;
    answer(
      route,
      request,
      (response) => {
        request.body = EMPTY;
        writeHttp1(req, res, response, limits);
      },
      () => res.destroy(),
    );
  };
  if (!route.isTooLong || !hasBody(req)) {
    onBody(EMPTY);
    return;
  }
  if (route.end) res.once("close", () => route.end?.());
  const onGivenUp = (reason: GiveUpReason) => {
    const response = limits.refuse?.(GIVEN_UP[reason], request.headers);
    if (!response) res.destroy();
    else writeHttp1(req, res, { ...response, headers: { ...response.headers, connection: "close" } }, limits);
  };
  collectBody(req, { route, bodies: limits.bodies, connection: req.socket }, { onBody, onGivenUp });
}

/** Why a request is refused whose body was given up. */
export const GIVEN_UP: { readonly [reason in GiveUpReason]: Refusal } = {
  late: REQUEST_TIMEOUT,
  crowded: { kind: "too-many-bodies" },
};

function ignore(): void {}

/** Has a request served and its answer written; what cannot be written fails the request alone. */
function answer(route: Route, request: HttpRequest, write: (response: HttpResponse) => void, fail: () => void): void {
  const tryWrite = (response: HttpResponse) => {
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
class Http2Request implements HttpRequest {
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
class Http1Request implements HttpRequest {
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

/**
 * Writes the answer to an HTTP/2 request. It may be called before the request's
 * body is read: what is still to come is dropped, up to a bound.
 */
export function writeHttp2(
  stream: ServerHttp2Stream,
  { status, headers, body, trailers }: HttpResponse,
  { answers, rests }: ExchangeLimits,
): void {
  if (stream.destroyed || stream.closed) return;
  headers[":status"] = status;
  // node:http2 drops it from answers to requests, and refuses to write it to a stream.
  if (headers["connection"] !== undefined) headers["connection"] = undefined;
  if (!trailers && body.length === 0) {
    // A header alone: gRPC knows its status there only if the stream ends with it.
    stream.respond(headers, END_STREAM);
  } else if (trailers) {
    stream.respond(headers, WAIT_FOR_TRAILERS);
    stream.once("wantTrailers", () => {
      try {
        stream.sendTrailers(trailers);
      } catch {
        // Fields that HTTP/2 forbids; thrown from here they would end the process.
        stream.close(constants.NGHTTP2_INTERNAL_ERROR);
      }
    });
  } else {
    stream.respond(headers);
  }
  // What answers HEAD, or has a status without a body, is ended by now.
  if (!stream.writableEnded) {
    if (body.length > 0) {
      const bytes = bodyBytes(body);
      stream.write(bytes, holdHttp2Answer(stream, bytes.byteLength, answers));
    }
    stream.end();
  }
  if (!stream.readableEnded) dropRestHttp2(stream, rests);
}

/**
 * Writes the answer to an HTTP/1.1 request. It may be called before the
 * request's body is read: what is still to come is dropped, up to a bound.
 */
export function writeHttp1(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body, trailers }: HttpResponse,
  { answers }: Pick<ExchangeLimits, "answers">,
): void {
  const { socket } = req;
  // An answer behind others in a pipeline is not told that its connection was closed.
  if (res.destroyed || socket.destroyed) return;
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
  // The system takes most answers at once. One that is behind others in a pipeline has no socket yet.
  if (res.socket === null || socket.writableLength > 0) {
    if (!res.writableFinished) holdHttp1Answer(socket, res, body.length, answers);
  }
  if (!req.readableEnded && hasBody(req)) dropRestHttp1(req);
}

/** A text that is, in latin1, the bytes of a body. */
function latin1Of(body: Uint8Array | string): string {
  // A text of ASCII has as many bytes as characters.
  if (typeof body === "string" && Buffer.byteLength(body) === body.length) return body;
  const { buffer, byteOffset, byteLength } = bodyBytes(body);
  return Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
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
