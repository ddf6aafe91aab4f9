import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { OnHttpError } from "./http-errors.ts";
import type { HeaderRecord } from "./lean-headers.ts";
import { exchangeHttp1, exchangeHttp2, writeHttp2 } from "./node-io.ts";
import { type PortHandlers, streamsAsRequests } from "./port.ts";
import type { Route } from "./wire.ts";

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
  /** Answers what is refused before it is a request. Default: the runtime does, with a status alone. */
  readonly onHttpError?: OnHttpError;
  /** How long the body of an HTTP/2 request may take to arrive, in milliseconds. Default 30 s, as over HTTP/1.1. */
  readonly arrivalTimeoutMs?: number;
}

/** Sends each request of a port to what serves it. */
export function dispatch(options: DispatchOptions): PortHandlers {
  const { find, fallback, fallbackHeaders, onHttpError, arrivalTimeoutMs = 30_000 } = options;
  const hosts = new Hosts();
  const fallBack = (req: IncomingMessage, res: ServerResponse) => {
    for (const [name, value] of Object.entries(fallbackHeaders(req.headers as HeaderRecord) ?? {})) {
      if (value !== undefined) res.setHeader(name, value);
    }
    fallback(req, res);
  };
  const asRequest = streamsAsRequests(fallBack as never);
  return {
    onHttpError,
    onHttp1: (req, res) => {
      takeAbsoluteForm(req);
      if (!hosts.isUsable(req.headers.host)) req.headers.host = "localhost";
      const found = find(req.method ?? "", req.url ?? "/", req.headers as HeaderRecord);
      const serve = (route: Route | undefined) => (route ? exchangeHttp1(req, res, route) : fallBack(req, res));
      if (!(found instanceof Promise)) return serve(found);
      whenFound(found, { stream: res, serve, fail: () => res.destroy() });
    },
    onHttp2: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags, rawHeaders) => {
      if (!hosts.isUsable(headers[":authority"] ?? headers.host)) headers[":authority"] = "localhost";
      const { expect } = headers;
      const isExpected = expect === undefined || expect === "100-continue";
      if (!isExpected && onHttpError) {
        stream.on("error", () => {});
        return writeHttp2(stream, onHttpError(417, headers as HeaderRecord));
      }
      // Where node:http2 makes a request of the stream, it refuses what else is expected.
      const found = isExpected
        ? find(headers[":method"] ?? "", headers[":path"] ?? "/", headers as HeaderRecord)
        : undefined;
      const serve = (route: Route | undefined) => {
        if (!route) return asRequest(stream, headers, flags, rawHeaders);
        // Who is refused need not send the body.
        if (expect !== undefined && route.isTooLong) stream.additionalHeaders({ ":status": 100 });
        exchangeHttp2(stream, headers, route, arrivalTimeoutMs);
      };
      if (!(found instanceof Promise)) return serve(found);
      whenFound(found, { stream, serve, fail: () => stream.close(constants.NGHTTP2_INTERNAL_ERROR) });
    },
  };
}

/** Serves a request once it is known what serves it, unless its caller is gone by then. */
function whenFound(
  found: Promise<Route | undefined>,
  to: {
    readonly stream: ServerResponse | ServerHttp2Stream;
    readonly serve: (route: Route | undefined) => void;
    readonly fail: () => void;
  },
): void {
  const { stream, serve, fail } = to;
  stream.on("error", () => {});
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
