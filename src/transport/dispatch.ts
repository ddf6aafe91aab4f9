import type { IncomingMessage, ServerResponse } from "node:http";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { OnHttpError } from "./http-errors.ts";
import type { HeaderRecord } from "./lean-headers.ts";
import { exchangeHttp1, exchangeHttp2, writeHttp2 } from "./node-io.ts";
import { type PortHandlers, streamsAsRequests } from "./port.ts";
import { cutQuotedFields } from "./quoted-fields.ts";
import type { Route } from "./wire.ts";

/** Where requests go. */
export interface DispatchOptions {
  /** What serves a request; undefined leaves it to the fallback. */
  readonly find: (httpMethod: string, target: string, headers: HeaderRecord) => Route | undefined;
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
    const { headers } = req;
    cutQuotedFields(
      (name) => headers[name],
      (name, value) => {
        headers[name] = value;
      },
    );
    fallback(req, res);
  };
  const asRequest = streamsAsRequests(fallBack as never);
  return {
    onHttpError,
    onHttp1: (req, res) => {
      if (!hosts.isUsable(req.headers.host)) req.headers.host = "localhost";
      const route = find(req.method ?? "", req.url ?? "/", req.headers as HeaderRecord);
      if (route) exchangeHttp1(req, res, route);
      else fallBack(req, res);
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
      const route = isExpected
        ? find(headers[":method"] ?? "", headers[":path"] ?? "/", headers as HeaderRecord)
        : undefined;
      if (!route) return asRequest(stream, headers, flags, rawHeaders);
      if (expect !== undefined) stream.additionalHeaders({ ":status": 100 });
      exchangeHttp2(stream, headers, route, arrivalTimeoutMs);
    },
  };
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
