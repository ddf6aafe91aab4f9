import type { IncomingMessage, ServerResponse } from "node:http";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Find, HeaderRecord, Route, StreamRoute } from "../exchange.ts";
import type { Refusal, Refuse } from "../protocol/refusals.ts";
import { ignore } from "./disconnected.ts";
import { HEADER_TOO_LARGE, MAX_HEADER_BYTES, READ_TIMEOUT_MS, REQUEST_TIMEOUT, REQUEST_TIMEOUT_MS } from "./limits.ts";
import { type EvictionReason, MemoryBudget } from "./memory-budget.ts";
import {
  type ExchangeContext,
  exchangeHttp1,
  exchangeHttp2,
  failHttp1,
  failHttp2,
  Http1Request,
  Http2Request,
  writeHttp2,
} from "./node-io.ts";
import type { OpenStreamsOptions } from "./open-streams.ts";
import type { PortHandlers } from "./port.ts";
import { Streams } from "./streams.ts";

/** How requests are dispatched, and their limits. */
export interface DispatchOptions {
  /** Finds the route of a request. */
  readonly find: Find;
  /** Makes the response to refused requests. */
  readonly refuse: Refuse;
  /** Called with unexpected errors. Only the request at hand fails. */
  readonly onError?: ((error: unknown) => void) | undefined;
  /** How long the body of a request may take to arrive, in milliseconds. Default 30 s. */
  readonly arrivalTimeoutMs?: number | undefined;
  /** How long a client may take to read a response, in milliseconds. Default 60 s. */
  readonly readTimeoutMs?: number | undefined;
  /** Limits of streaming calls. */
  readonly streams?: OpenStreamsOptions | undefined;
}

const MIB = 1024 * 1024;

/** What all requests of a server share: memory budgets, and what becomes of requests that fail. */
export function exchangeContext({
  refuse,
  onError,
  arrivalTimeoutMs = REQUEST_TIMEOUT_MS,
  readTimeoutMs = READ_TIMEOUT_MS,
}: DispatchOptions): ExchangeContext {
  const evictionRefusals: { readonly [reason in EvictionReason]: Refusal } = {
    timeout: { ...REQUEST_TIMEOUT, requestMs: arrivalTimeoutMs },
    "over-budget": { kind: "too-many-bodies" },
  };
  const bounds = { maxBytes: 64 * MIB, maxConnectionBytes: 16 * MIB, overheadBytes: 16 * 1024 };
  return {
    refuseEvicted: (reason, headers) => refuse(evictionRefusals[reason], headers),
    onError,
    bodies: new MemoryBudget({ ...bounds, timeoutMs: arrivalTimeoutMs }),
    discards: new MemoryBudget({ ...bounds, timeoutMs: arrivalTimeoutMs }),
    // All responses of one event loop turn are pending together. That is no sign of clients that do not read, so each
    // costs little.
    answers: new MemoryBudget({ ...bounds, overheadBytes: 2 * 1024, timeoutMs: readTimeoutMs }),
  };
}

/** Dispatches each request of a port to its route. */
export function dispatch(options: DispatchOptions): PortHandlers {
  const { find, refuse } = options;
  const hosts = new Hosts();
  const context = exchangeContext(options);
  const streams = new Streams(options, context);

  const http2 = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags: number, rawHeaders: string[]) => {
    if (!hosts.isUsable(headers[":authority"] ?? headers.host)) headers[":authority"] = "localhost";
    // Its value is case-insensitive (RFC 9110, 10.1.1).
    const expect = headers.expect?.toLowerCase();
    if (expect !== undefined && expect !== "100-continue") {
      return writeHttp2(stream, refuse({ kind: "expectation-failed" }, headers as HeaderRecord), context);
    }
    const serve = (route: Route | StreamRoute) => {
      if (expect === "100-continue") {
        // Where node:http2 makes a request object of the stream, it would send 100 as well, and throw if the stream is
        // closed.
        delete headers.expect;
        // A client whose request is refused need not send the body.
        if ("handler" in route || route.isTooLong) stream.additionalHeaders({ ":status": 100 });
      }
      if ("handler" in route) streams.http2(route, stream, headers, [flags, rawHeaders]);
      else exchangeHttp2(stream, request, route, context);
    };
    const request = new Http2Request(stream, headers);
    const found = find(request);
    if (!(found instanceof Promise)) return serve(found);
    serveWhenFound(found, { stream, serve, fail: (error) => failHttp2(stream, error, context) });
  };

  return {
    refuse,
    onError: context.onError,
    streamingCalls: (session) => streams.countOf(session),
    onHttp1: (req, res) => {
      // An exception that escapes from here would end the process.
      try {
        normalizeAbsoluteForm(req);
        if (!hosts.isUsable(req.headers.host)) req.headers.host = "localhost";
        const request = new Http1Request(req, res);
        const found = find(request);
        const serve = (route: Route | StreamRoute) =>
          "handler" in route ? streams.http1(route, req, res) : exchangeHttp1(req, res, request, route, context);
        if (!(found instanceof Promise)) return serve(found);
        serveWhenFound(found, { stream: res, serve, fail: (error) => failHttp1(res, error, context) });
      } catch (error) {
        failHttp1(res, error, context);
      }
    },
    onHttp2: (stream, headers, flags, rawHeaders) => {
      try {
        stream.on("error", ignore);
        // A stream that was reset in the packet that opened it is closed before this event.
        if (stream.destroyed || stream.closed) return;
        if (isTooLarge(rawHeaders)) writeHttp2(stream, refuse(HEADER_TOO_LARGE, headers as HeaderRecord), context);
        else http2(stream, headers, flags, rawHeaders);
      } catch (error) {
        failHttp2(stream, error, context);
      }
    },
  };
}

/** Serves a request once its route is known, unless the client has disconnected by then. */
function serveWhenFound(
  found: Promise<Route | StreamRoute>,
  to: {
    readonly stream: ServerResponse | ServerHttp2Stream;
    readonly serve: (route: Route | StreamRoute) => void;
    readonly fail: (error: unknown) => void;
  },
): void {
  const { stream, serve, fail } = to;
  stream.on("error", ignore);
  const serveIfConnected = (route: Route | StreamRoute) => {
    if (!stream.destroyed) serve(route);
    else if ("end" in route) route.end?.();
  };
  found.then(serveIfConnected).catch(fail);
}

const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)([^#]*)/i;

/**
 * Converts a target in absolute form, which clients of proxies send, to origin form. Its host replaces the `Host`
 * header (RFC 9112, 3.2.2).
 */
function normalizeAbsoluteForm(req: IncomingMessage): void {
  const { url = "/" } = req;
  if (url.startsWith("/")) return;
  const [isAbsolute, authority, target = ""] = ABSOLUTE_FORM.exec(url) ?? [];
  if (isAbsolute === undefined) return;
  req.headers.host = authority;
  req.url = target.startsWith("/") ? target : `/${target}`;
}

/**
 * Whether the headers are too large. node:http2 enforces its limit only after the client has acknowledged the settings.
 */
function isTooLarge(rawHeaders: readonly string[]): boolean {
  let bytes = 0;
  for (const text of rawHeaders) bytes += text.length;
  return bytes > MAX_HEADER_BYTES;
}

/** Tells whether a URL can be built from a host. Connect's adapter would throw on other hosts, and end the process. */
class Hosts {
  // Consecutive requests mostly name the same host.
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
