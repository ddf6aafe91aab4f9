import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { capDeadline } from "../protocol/deadlines.ts";
import { cutQuotedFields } from "../protocol/quoted-fields.ts";
import type { HeaderRecord } from "../protocol/record-headers.ts";
import type { Route } from "../wire.ts";
import { dropRestHttp2, endIfEarlyHttp1 } from "./drain.ts";
import { isGone } from "./gone.ts";
import { Holdings } from "./holdings.ts";
import type { OnHttpError } from "./http-errors.ts";
import { type ExchangeLimits, exchangeHttp1, exchangeHttp2, writeHttp1, writeHttp2 } from "./node-io.ts";
import { OpenStreams, type OpenStreamsOptions } from "./open-streams.ts";
import { MAX_HEADER_BYTES, type PortHandlers, streamsAsRequests } from "./port.ts";

/**
 * Finds what serves a request; undefined where nothing of its own does. A promise only where it takes one to tell
 * whether the request may come in.
 *
 * @param target path and query
 */
export type Find = (
  httpMethod: string,
  target: string,
  headers: HeaderRecord,
) => Route | undefined | Promise<Route | undefined>;

/** Where requests go. */
export interface DispatchOptions {
  /** What serves a request, by its header; undefined leaves it to the fallback. */
  readonly find: Find;
  /** Serves every other request, and streams. */
  readonly fallback: (req: IncomingMessage, res: ServerResponse) => void;
  /** Fields to add to the fallback's answer. */
  readonly fallbackHeaders: (headers: HeaderRecord) => HeaderRecord | undefined;
  /** Answers what is refused before it is a request, or as one too many. Default: a status alone, or a reset. */
  readonly onHttpError?: OnHttpError;
  /** Hears of a failure that nobody foresaw; its request alone is given up. */
  readonly onError?: (error: unknown) => void;
  /** How long the body of a request may take to arrive, in milliseconds. Default 30 s, as node:http has it. */
  readonly arrivalTimeoutMs?: number;
  /** How long a caller may take to read an answer, in milliseconds. Default 60 s. */
  readonly readTimeoutMs?: number;
  /** Bounds of what the fallback serves. */
  readonly streams?: OpenStreamsOptions;
}

const MIB = 1024 * 1024;

/** The bounds of what the requests of a process hold. */
export function exchangeLimits({
  onHttpError,
  arrivalTimeoutMs = 30_000,
  readTimeoutMs = 60_000,
}: Pick<DispatchOptions, "onHttpError" | "arrivalTimeoutMs" | "readTimeoutMs"> = {}): ExchangeLimits {
  const bounds = { maxBytes: 64 * MIB, maxConnectionBytes: 16 * MIB, ownBytes: 16 * 1024 };
  return {
    refuse: onHttpError,
    bodies: new Holdings({ ...bounds, timeoutMs: arrivalTimeoutMs }),
    rests: new Holdings({ ...bounds, timeoutMs: arrivalTimeoutMs }),
    // Those of one turn of the event loop are there together; that is no sign of callers who do not read.
    answers: new Holdings({ ...bounds, ownBytes: 2 * 1024, timeoutMs: readTimeoutMs }),
  };
}

/** Sends each request of a port to what serves it. */
export function dispatch(options: DispatchOptions): PortHandlers {
  const { find, onHttpError, onError } = options;
  const hosts = new Hosts();
  const limits = exchangeLimits(options);
  const fallback = new Fallback(options, limits);

  const http2 = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags: number, rawHeaders: string[]) => {
    if (!hosts.isUsable(headers[":authority"] ?? headers.host)) headers[":authority"] = "localhost";
    // Its value has no case (RFC 9110, 10.1.1).
    const expect = headers.expect?.toLowerCase();
    if (expect !== undefined && expect !== "100-continue") {
      if (onHttpError) return writeHttp2(stream, onHttpError(417, headers as HeaderRecord), limits);
      return stream.respond({ ":status": 417 }, { endStream: true });
    }
    const serve = (route: Route | undefined) => {
      if (expect === "100-continue") {
        // Where node:http2 makes a request of the stream, it would say so as well, and throw when the stream is closed.
        delete headers.expect;
        // Who is refused need not send the body.
        if (!route || route.isTooLong) stream.additionalHeaders({ ":status": 100 });
      }
      if (route) exchangeHttp2(stream, headers, route, limits);
      else fallback.http2(stream, headers, flags, rawHeaders);
    };
    const found = find(headers[":method"] ?? "", headers[":path"] ?? "/", headers as HeaderRecord);
    if (!(found instanceof Promise)) return serve(found);
    whenFound(found, { stream, serve, fail: (error) => failHttp2(stream, error) });
  };
  const failHttp1 = (res: ServerResponse, error: unknown) => {
    if (!isGone(res)) onError?.(error);
    res.destroy();
  };
  const failHttp2 = (stream: ServerHttp2Stream, error: unknown) => {
    if (!isGone(stream)) onError?.(error);
    stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  };

  return {
    onHttpError,
    onHttp1: (req, res) => {
      // Thrown on from here it would end the process.
      try {
        takeAbsoluteForm(req);
        if (!hosts.isUsable(req.headers.host)) req.headers.host = "localhost";
        const found = find(req.method ?? "", req.url ?? "/", req.headers as HeaderRecord);
        const serve = (route: Route | undefined) =>
          route ? exchangeHttp1(req, res, route, limits) : fallback.http1(req, res);
        if (!(found instanceof Promise)) return serve(found);
        whenFound(found, { stream: res, serve, fail: (error) => failHttp1(res, error) });
      } catch (error) {
        failHttp1(res, error);
      }
    },
    onHttp2: (stream, headers, flags, rawHeaders) => {
      try {
        stream.on("error", ignore);
        // What was reset in the packet that it began in is closed before anybody hears of it.
        if (stream.destroyed || stream.closed) return;
        if (onHttpError && isTooLarge(rawHeaders))
          writeHttp2(stream, onHttpError(431, headers as HeaderRecord), limits);
        else http2(stream, headers, flags, rawHeaders);
      } catch (error) {
        failHttp2(stream, error);
      }
    },
  };
}

function ignore(): void {}

/** Serves a request once it is known what serves it, unless its caller is gone by then. */
function whenFound(
  found: Promise<Route | undefined>,
  to: {
    readonly stream: ServerResponse | ServerHttp2Stream;
    readonly serve: (route: Route | undefined) => void;
    readonly fail: (error: unknown) => void;
  },
): void {
  const { stream, serve, fail } = to;
  stream.on("error", ignore);
  const serveStill = (route: Route | undefined) => (stream.destroyed ? route?.end?.() : serve(route));
  found.then(serveStill).catch(fail);
}

const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)([^#]*)/i;

/** A target with its host, as clients of proxies send it, names the host in place of the field (RFC 9112, 3.2.2). */
function takeAbsoluteForm(req: IncomingMessage): void {
  const { url = "/" } = req;
  if (url.startsWith("/")) return;
  const [isAbsolute, authority, target = ""] = ABSOLUTE_FORM.exec(url) ?? [];
  if (isAbsolute === undefined) return;
  req.headers.host = authority;
  req.url = target.startsWith("/") ? target : `/${target}`;
}

/** Whether header fields are larger than allowed; node:http2 does not see to it before its settings are acknowledged. */
function isTooLarge(rawHeaders: readonly string[]): boolean {
  let bytes = 0;
  for (const text of rawHeaders) bytes += text.length;
  return bytes > MAX_HEADER_BYTES;
}

/** Leaves requests to the fallback: streams, which last, and what else the routes do not know. */
class Fallback {
  readonly #options: DispatchOptions;
  readonly #limits: ExchangeLimits;
  readonly #streams: OpenStreams;
  readonly #asRequest: PortHandlers["onHttp2"];

  constructor(options: DispatchOptions, limits: ExchangeLimits) {
    this.#options = options;
    this.#limits = limits;
    this.#streams = new OpenStreams(options.streams);
    this.#asRequest = streamsAsRequests(((req: IncomingMessage, res: ServerResponse) =>
      this.#serve(req, res)) as never);
  }

  http1(req: IncomingMessage, res: ServerResponse): void {
    const { onHttpError } = this.#options;
    const stream = this.#streams.enter(req.socket, () => res.destroy());
    if (!stream) {
      req.on("error", ignore);
      res.on("error", ignore);
      if (onHttpError) writeHttp1(req, res, onHttpError(429, req.headers as HeaderRecord), this.#limits);
      else res.writeHead(429).end();
      return;
    }
    res.once("close", stream.leave);
    endIfEarlyHttp1(req, res);
    this.#serve(req, res);
  }

  http2(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags: number, rawHeaders: string[]): void {
    const { onHttpError } = this.#options;
    const open = this.#streams.enter(stream.session, () => stream.close(constants.NGHTTP2_CANCEL));
    if (!open) {
      if (onHttpError) writeHttp2(stream, onHttpError(429, headers as HeaderRecord), this.#limits);
      else stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    stream.once("close", open.leave);
    stream.once("finish", () => dropRestHttp2(stream, this.#limits.rests));
    this.#asRequest(stream, headers, flags, rawHeaders);
  }

  #serve(req: IncomingMessage, res: ServerResponse): void {
    const { fallback, fallbackHeaders } = this.#options;
    // What these throw where nobody listens ends the process.
    req.on("error", ignore);
    res.on("error", ignore);
    const headers = req.headers as HeaderRecord;
    for (const [name, value] of Object.entries(fallbackHeaders(headers) ?? {})) {
      if (value !== undefined) res.setHeader(name, value);
    }
    cutQuotedFields(
      (name) => headers[name],
      (name, value) => {
        headers[name] = value;
      },
    );
    capDeadline(headers);
    this.#streams.limitDeadline(headers);
    fallback(req, res);
  }
}

/** Tells which hosts a URL can be made of: Connect's adapter throws, and so fails the process, where it cannot. */
class Hosts {
  // Most requests name the same host as the one before.
  #lastUsable: string | undefined;

  isUsable(host: string | undefined): boolean {
    if (host === undefined) return false;
    if (host !== this.#lastUsable) {
      if (!URL.canParse(`http://${host}`)) return false;
      this.#lastUsable = host;
    }
    return true;
  }
}
