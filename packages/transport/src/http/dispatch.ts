import type { IncomingMessage, ServerResponse } from "node:http";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { HEADER_TOO_LARGE, type Limits, MAX_HEADER_BYTES } from "../limits.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { ClientBudget, Turn, UNIT_BYTES } from "./client-budget.ts";
import { Http1Connection, Http1Request } from "./http1.ts";
import { Http2Request } from "./http2.ts";
import type { RequestContext, RequestHandlers } from "./server-request.ts";

const MIB = 1024 * 1024;

/** How much memory slow bodies may hold, in bytes. */
const BODY_BYTES = 64 * MIB;

/**
 * The same for unread responses. Deno 2.9.3 never frees what it has left to write to a TLS connection when that is closed, so
 * it may have less.
 */
const RESPONSE_BYTES = ("Deno" in globalThis ? 16 : 64) * MIB;

/** The listeners of a port's servers, which dispatch each request to its route. */
export function dispatch({ find, refuse, onError }: RequestHandlers, limits: Limits) {
  const context: RequestContext = {
    find,
    refuse,
    onError,
    limits,
    bodies: new ClientBudget(BODY_BYTES / UNIT_BYTES),
    responses: new ClientBudget(RESPONSE_BYTES / UNIT_BYTES),
    streams: new ClientBudget(limits.streams.max),
    turn: new Turn(),
  };

  return {
    /**
     * @param expectation what the client expects before it sends the body: nothing; to be asked for it, by `writeContinue`
     * (RFC 9110, 10.1.1); or anything else, which no server can meet
     */
    onHttp1: (req: IncomingMessage, res: ServerResponse, expectation: "none" | "continue" | "unknown") => {
      const connection = Http1Connection.of(req.socket);
      if (!connection.takes(res)) return;
      const refusal = expectation === "unknown" ? EXPECTATION_FAILED : doubtOf(req);
      const request = new Http1Request(res, connection, context);
      request.awaitsContinue = expectation === "continue";
      if (refusal) request.refuse(refusal);
      else request.serve();
    },
    onHttp2: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, rawHeaders: string[]) => {
      if (!isHost(headers[":authority"] ?? headers.host ?? "")) headers[":authority"] = "localhost";
      const request = new Http2Request(stream, headers, context);
      // A stream that was reset in the packet that opened it is closed before this event.
      if (request.isDisconnected) return;
      const { expectation = "100-continue" } = request;
      if (isTooLarge(rawHeaders)) request.refuse(HEADER_TOO_LARGE);
      else if (expectation !== "100-continue") request.refuse(EXPECTATION_FAILED);
      else request.serve();
    },
    /** Called with what node:http itself refuses. */
    onHttp1Error: (error: NodeJS.ErrnoException, socket: Socket) => {
      try {
        Http1Connection.of(socket).fail(error, refuse);
      } catch (failure) {
        socket.destroy();
        onError?.(failure);
      }
    },
  };
}

const EXPECTATION_FAILED: Refusal = { kind: "expectation-failed" };
const MALFORMED: Refusal = { kind: "malformed-http" };

/**
 * Why a request over HTTP/1.1 is not served: where it ends or whom it is for is in doubt (RFC 9112, 6.1 and 3.2), and a
 * proxy in front may see it otherwise.
 */
function doubtOf(req: IncomingMessage): Refusal | undefined {
  const { headers, httpVersion } = req;
  const { host, "transfer-encoding": coding } = headers;
  if (coding !== undefined && httpVersion === "1.0") return MALFORMED;
  if (coding !== undefined && coding.toLowerCase() !== "chunked") return { kind: "transfer-coding" };
  if (host ? !isHost(host) : host === undefined && httpVersion !== "1.0") return MALFORMED;
  headers.host ||= "localhost";
  return toOriginForm(req) ? undefined : MALFORMED;
}

const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)([^#]*)/i;

/**
 * Converts a target in absolute form, which clients of proxies send, to origin form. Its host replaces the `Host`
 * header (RFC 9112, 3.2.2). Returns false when it has none.
 */
function toOriginForm(req: IncomingMessage): boolean {
  const { url = "/" } = req;
  if (url.startsWith("/")) return true;
  const [isAbsolute, authority = "", target = ""] = ABSOLUTE_FORM.exec(url) ?? [];
  if (isAbsolute === undefined) return true;
  req.headers.host = authority;
  req.url = target.startsWith("/") ? target : `/${target}`;
  return isHost(authority);
}

/**
 * Whether the headers are too large. node:http2 enforces its limit only after the client has acknowledged the settings.
 */
function isTooLarge(rawHeaders: readonly string[]): boolean {
  let bytes = 0;
  for (const text of rawHeaders) bytes += text.length;
  return bytes > MAX_HEADER_BYTES;
}

/** A host and a port, either of which may be empty (RFC 3986, 3.2.2 and 3.2.3). */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\da-f:.]+\])(?::\d*)?$/i;

/** Consecutive requests mostly name the same host. */
let lastHost: string | undefined;

/** Whether a text is a host of which a URL can be built. Connect's adapter would throw on another. */
function isHost(text: string): boolean {
  if (text === lastHost) return true;
  if (!HOST.test(text) || !URL.canParse(`http://${text}`)) return false;
  lastHost = text;
  return true;
}
