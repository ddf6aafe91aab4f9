import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Find, HeaderRecord, HttpResponse, Route, StreamRoute } from "../exchange.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { isGone } from "./gone.ts";
import { Holdings } from "./holdings.ts";
import { HEADER_TOO_LARGE, MAX_HEADER_BYTES, READ_TIMEOUT_MS, REQUEST_TIMEOUT_MS } from "./limits.ts";
import { type ExchangeLimits, exchangeHttp1, exchangeHttp2, writeHttp2 } from "./node-io.ts";
import type { OpenStreamsOptions } from "./open-streams.ts";
import type { PortHandlers } from "./port.ts";
import { Streams } from "./streams.ts";

/**
 * Makes the answer to what is refused before anything serves it.
 *
 * @param headers those of the request, as far as they are known
 */
export type Refuse = (refusal: Refusal, headers: HeaderRecord) => HttpResponse;

/** Where requests go. */
export interface DispatchOptions {
  /** What serves a request, by its header. */
  readonly find: Find;
  /** Default: a status alone, or a reset. */
  readonly refuse?: Refuse | undefined;
  /** Hears of a failure that nobody foresaw; its request alone is given up. */
  readonly onError?: ((error: unknown) => void) | undefined;
  /** How long the body of a request may take to arrive, in milliseconds. */
  readonly arrivalTimeoutMs?: number | undefined;
  /** How long a caller may take to read an answer, in milliseconds. */
  readonly readTimeoutMs?: number | undefined;
  /** Bounds of streams. */
  readonly streams?: OpenStreamsOptions | undefined;
}

const MIB = 1024 * 1024;

/** The bounds of what the requests of a process hold. */
export function exchangeLimits({
  refuse,
  arrivalTimeoutMs = REQUEST_TIMEOUT_MS,
  readTimeoutMs = READ_TIMEOUT_MS,
}: Pick<DispatchOptions, "refuse" | "arrivalTimeoutMs" | "readTimeoutMs"> = {}): ExchangeLimits {
  const bounds = { maxBytes: 64 * MIB, maxConnectionBytes: 16 * MIB, ownBytes: 16 * 1024 };
  return {
    refuse,
    bodies: new Holdings({ ...bounds, timeoutMs: arrivalTimeoutMs }),
    rests: new Holdings({ ...bounds, timeoutMs: arrivalTimeoutMs }),
    // Those of one turn of the event loop are there together; that is no sign of callers who do not read.
    answers: new Holdings({ ...bounds, ownBytes: 2 * 1024, timeoutMs: readTimeoutMs }),
  };
}

/** Sends each request of a port to what serves it. */
export function dispatch(options: DispatchOptions): PortHandlers {
  const { find, refuse, onError } = options;
  const hosts = new Hosts();
  const limits = exchangeLimits(options);
  const streams = new Streams(options, limits);

  const http2 = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags: number, rawHeaders: string[]) => {
    if (!hosts.isUsable(headers[":authority"] ?? headers.host)) headers[":authority"] = "localhost";
    // Its value has no case (RFC 9110, 10.1.1).
    const expect = headers.expect?.toLowerCase();
    if (expect !== undefined && expect !== "100-continue") {
      if (refuse) return writeHttp2(stream, refuse({ kind: "expectation-failed" }, headers as HeaderRecord), limits);
      return stream.respond({ ":status": 417 }, { endStream: true });
    }
    const serve = (route: Route | StreamRoute) => {
      if (expect === "100-continue") {
        // Where node:http2 makes a request of the stream, it would say so as well, and throw when the stream is closed.
        delete headers.expect;
        // Who is refused need not send the body.
        if ("handler" in route || route.isTooLong) stream.additionalHeaders({ ":status": 100 });
      }
      if ("handler" in route) streams.http2(route, stream, headers, [flags, rawHeaders]);
      else exchangeHttp2(stream, headers, route, limits);
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
    refuse,
    onHttp1: (req, res) => {
      // Thrown on from here it would end the process.
      try {
        takeAbsoluteForm(req);
        if (!hosts.isUsable(req.headers.host)) req.headers.host = "localhost";
        const found = find(req.method ?? "", req.url ?? "/", req.headers as HeaderRecord);
        const serve = (route: Route | StreamRoute) =>
          "handler" in route ? streams.http1(route, req, res) : exchangeHttp1(req, res, route, limits);
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
        if (refuse && isTooLarge(rawHeaders)) {
          writeHttp2(stream, refuse(HEADER_TOO_LARGE, headers as HeaderRecord), limits);
        } else http2(stream, headers, flags, rawHeaders);
      } catch (error) {
        failHttp2(stream, error);
      }
    },
  };
}

function ignore(): void {}

/** Serves a request once it is known what serves it, unless its caller is gone by then. */
function whenFound(
  found: Promise<Route | StreamRoute>,
  to: {
    readonly stream: ServerResponse | ServerHttp2Stream;
    readonly serve: (route: Route | StreamRoute) => void;
    readonly fail: (error: unknown) => void;
  },
): void {
  const { stream, serve, fail } = to;
  stream.on("error", ignore);
  const serveStill = (route: Route | StreamRoute) => {
    if (!stream.destroyed) serve(route);
    else if ("end" in route) route.end?.();
  };
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
