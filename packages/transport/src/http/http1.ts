import type { IncomingMessage, ServerResponse } from "node:http";
import { bodyBytes, type HeaderRecord, type HttpResponse } from "../http-types.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { discard } from "./body.ts";
import { Http1Connection } from "./connections.ts";
import {
  EXPECTATION_FAILED,
  ignore,
  isHost,
  plainAddress,
  type RequestContext,
  ServerRequest,
} from "./server-request.ts";

/** Whether node:http writes headers and a body that is a string in one piece, and needs `readEnd`: Deno's does neither. */
const IS_NODE = !("Deno" in globalThis);

/**
 * The longest body that is converted to a string, in bytes. For longer ones the conversion costs more than a second
 * write.
 */
const MAX_MERGED_BYTES = 4096;

/**
 * A listener that serves the requests of a port's HTTP/1.1 connections.
 *
 * @param expectation what the client expects before it sends the body: nothing; to be asked for it, by `writeContinue`
 * (RFC 9110, 10.1.1); or anything else, which no server can meet
 */
export function http1Listener(context: RequestContext, expectation: "none" | "continue" | "unknown") {
  return (req: IncomingMessage, res: ServerResponse) => {
    const connection = Http1Connection.of(req.socket);
    if (!connection.takes(res)) return;
    const refusal = expectation === "unknown" ? EXPECTATION_FAILED : doubtOf(req);
    const request = new Http1Request(res, connection, context);
    request.awaitsContinue = expectation === "continue";
    if (refusal) request.refuse(refusal);
    else request.serve();
  };
}

const MALFORMED: Refusal = { kind: "malformed-http" };

/**
 * Why a request over HTTP/1.1 is not served: it is doubtful where it ends or whom it is for (RFC 9112, 6.1 and 3.2),
 * and a proxy in front may have decided otherwise.
 */
function doubtOf(req: IncomingMessage): Refusal | undefined {
  const { headers, httpVersion } = req;
  const { host, "transfer-encoding": coding } = headers;
  if (coding !== undefined && httpVersion === "1.0") return MALFORMED;
  if (coding !== undefined && coding.toLowerCase() !== "chunked") return { kind: "transfer-coding" };
  if (host ? !isHost(host) : host === undefined && httpVersion !== "1.0") return MALFORMED;
  headers.host ||= "localhost";
  return req.url?.startsWith("/") || toOriginForm(req) ? undefined : MALFORMED;
}

const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)(.*)/i;

/**
 * Converts a target in absolute form, which clients of proxies send, to origin form. Its host replaces the `Host`
 * header (RFC 9112, 3.2.2). Returns false when it has none.
 */
function toOriginForm(req: IncomingMessage): boolean {
  const [isAbsolute, authority = "", target = ""] = ABSOLUTE_FORM.exec(req.url ?? "/") ?? [];
  if (isAbsolute === undefined) return true;
  req.headers.host = authority;
  req.url = target.startsWith("/") ? target : `/${target}`;
  return isHost(authority);
}

/** A request over HTTP/1.1, and its response. */
class Http1Request extends ServerRequest<ServerResponse> {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  private readonly req: IncomingMessage;
  /** RFC 9112, 6.3. */
  protected readonly hasBody: boolean;
  private readonly connection: Http1Connection;
  /** Whether the client waits to be asked for the body. */
  awaitsContinue = false;

  constructor(res: ServerResponse, connection: Http1Connection, context: RequestContext) {
    super(res, context);
    const { req } = res;
    req.on("error", ignore);
    const { "content-length": length, "transfer-encoding": coding } = req.headers;
    this.hasBody = coding !== undefined || (length !== undefined && Number(length) !== 0);
    this.httpMethod = req.method ?? "";
    this.target = req.url ?? "/";
    this.headers = req.headers as HeaderRecord;
    this.req = req;
    this.connection = connection;
    this.readEnd();
  }

  /**
   * Has node:http see the end of a request without a body. It takes two reads: one when the request arrives, which finds
   * nothing, and one before the response, which finds the end. Without the first, node:http reads the request itself once
   * the response is written, in five more steps of the event loop. Without the second, it keeps the request for as long as
   * the connection is idle.
   */
  private readEnd(): void {
    if (IS_NODE && !this.hasBody) this.req.read(0);
  }

  /**
   * A response that is queued in a pipeline does not hear from node:http that its connection has closed, so the socket is
   * asked as well. When the request broke off, `Http1Connection.onClientError` has already ended the response.
   */
  get isDisconnected(): boolean {
    return this.response.destroyed || this.response.closed || this.response.writableEnded || this.req.socket.destroyed;
  }

  peerAddress(): string {
    return plainAddress(this.req.socket.remoteAddress);
  }

  protected get isEncrypted(): boolean {
    return "encrypted" in this.req.socket;
  }

  protected openBody(): IncomingMessage {
    if (this.awaitsContinue) this.response.writeContinue();
    this.awaitsContinue = false;
    return this.req;
  }

  protected handOver(): [req: IncomingMessage, res: ServerResponse] {
    const { req, response: res, connection } = this;
    if (this.hasBody) this.openBody();
    connection.writesOverTime(res);
    const { writeHead } = res;
    res.writeHead = ((...args: never[]) => {
      // Connect's adapter then stops reading the request, and the next one would wait behind the unread rest.
      if (!req.complete) connection.closeAfter(res);
      this.readEnd();
      return Reflect.apply(writeHead, res, args);
    }) as never;
    return [req, res];
  }

  protected respond({ status, headers, body, trailers }: HttpResponse): void {
    const { req, response: res } = this;
    if (this.isDisconnected) return;
    this.readEnd();
    // A client that was not asked for the body may send it all the same (RFC 9110, 10.1.1): where the next request begins
    // is not known.
    if (this.awaitsContinue && this.hasBody) this.connection.closeAfter(res);
    this.connection.writesWhole(res);
    res.writeHead(status, headers);
    if (trailers) {
      res.write(bodyBytes(body));
      res.addTrailers(trailers as { [name: string]: string });
      res.end();
    } else if (body.length <= MAX_MERGED_BYTES && IS_NODE) {
      // node:http sends a string in one write with the headers. In latin1 every byte is one character; an ASCII string has
      // as many bytes as characters.
      const isAscii = typeof body === "string" && Buffer.byteLength(body) === body.length;
      res.end(isAscii ? body : bodyBytes(body).toString("latin1"), "latin1");
    } else {
      res.end(bodyBytes(body));
    }
    // The kernel takes most responses at once. A response that is queued in a pipeline has no socket yet.
    const isTaken = res.writableFinished || (res.socket !== null && req.socket.writableLength === 0);
    if (!isTaken) this.chargeResponse(body.length);
    // To close the connection with unread bytes could lose the response on its way. node:http itself ends a request that
    // takes too long.
    if (this.hasBody && !req.readableEnded) discard(req, () => req.destroy());
  }

  override refuse(refusal: Refusal): void {
    this.connection.closeAfter(this.response);
    super.refuse(refusal);
  }

  protected reset(): void {
    this.response.destroy();
  }

  protected get isWritten(): boolean {
    // A response that is queued in a pipeline does not hear that its connection has closed.
    return this.response.writableFinished || this.req.socket.destroyed;
  }

  protected abandon(): void {
    this.req.socket.destroy();
  }
}
