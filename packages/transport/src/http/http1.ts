import type { IncomingMessage, ServerResponse } from "node:http";
import { bodyBytes, type HeaderRecord, type HttpResponse } from "../http-types.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { discard } from "./body.ts";
import { Http1Connection } from "./connections.ts";
import { EXPECTATION_FAILED, ignore, isHost, type RequestContext, ServerRequest } from "./server-request.ts";

/**
 * Whether the runtime is Node. Only on Node, node:http sends headers and a string body in one write, and needs
 * `readEnd`.
 */
const IS_NODE = !("Deno" in globalThis);

/**
 * The maximum length of a body that is converted to a string, in bytes. For a longer body, the conversion costs more
 * than a second write.
 */
const MAX_MERGED_BYTES = 4096;

/**
 * Creates a listener for HTTP/1.1 requests.
 *
 * @param expectation the value of the `Expect` header of these requests: none, `100-continue`, or an unknown value (RFC
 * 9110, 10.1.1)
 */
export function http1Listener(context: RequestContext, expectation: "none" | "continue" | "unknown") {
  return (req: IncomingMessage, res: ServerResponse) => {
    const connection = Http1Connection.of(req.socket);
    if (!connection.takes(res)) return;
    const refusal = expectation === "unknown" ? EXPECTATION_FAILED : refusalOfAmbiguous(req);
    const request = new Http1Request(res, connection, context);
    request.awaitsContinue = expectation === "continue";
    if (refusal) request.refuse(refusal);
    else request.serve();
  };
}

const MALFORMED: Refusal = { kind: "malformed-http" };

/**
 * Returns the refusal of an ambiguous HTTP/1.1 request; undefined if the request is not ambiguous. A proxy in front of
 * the server and the server itself could disagree about the end or the host of an ambiguous request (RFC 9112, 6.1 and
 * 3.2).
 */
function refusalOfAmbiguous(req: IncomingMessage): Refusal | undefined {
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
 * Converts a request target in absolute form to origin form. Clients of proxies send the absolute form. The host of the
 * target replaces the `Host` header (RFC 9112, 3.2.2). Returns false if the host is invalid.
 */
function toOriginForm(req: IncomingMessage): boolean {
  const [isAbsolute, authority = "", target = ""] = ABSOLUTE_FORM.exec(req.url ?? "/") ?? [];
  if (isAbsolute === undefined) return true;
  req.headers.host = authority;
  req.url = target.startsWith("/") ? target : `/${target}`;
  return isHost(authority);
}

class Http1Request extends ServerRequest<ServerResponse> {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  private readonly req: IncomingMessage;
  /** Whether the request has a body (RFC 9112, 6.3). */
  protected readonly hasBody: boolean;
  private readonly connection: Http1Connection;
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
   * If the request has no body, lets node:http detect the end of the request. Call this method when the request
   * arrives, and again before the response is written. Without the first call, node:http would need five more steps of
   * the event loop. Without the second call, node:http would keep the request in memory while the connection is idle.
   */
  private readEnd(): void {
    if (IS_NODE && !this.hasBody) this.req.read(0);
  }

  /**
   * Whether the client has disconnected. Also checks the socket, because node:http does not close a waiting pipelined
   * response when the connection closes. `writableEnded` is true if `Http1Connection.onClientError` has ended the
   * response.
   */
  get isDisconnected(): boolean {
    return this.response.destroyed || this.response.closed || this.response.writableEnded || this.req.socket.destroyed;
  }

  get unreadBytes(): number {
    return this.req.readableLength;
  }

  pauseConnections(): [] {
    return [];
  }

  peerAddress(): string {
    return this.connection.peerAddress;
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
      // Connect's adapter stops reading when it responds. If the connection stayed open, the next request would wait
      // behind the unread rest of the body.
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
    // The server has not sent 100 Continue, so the client may send or omit the body (RFC 9110, 10.1.1). The server
    // cannot find the start of the next request, so it closes the connection.
    if (this.awaitsContinue && this.hasBody) this.connection.closeAfter(res);
    this.connection.writesWhole(res);
    res.writeHead(status, headers);
    if (trailers) {
      res.write(bodyBytes(body));
      res.addTrailers(trailers as { [name: string]: string });
      res.end();
    } else if (body.length <= MAX_MERGED_BYTES && IS_NODE) {
      // node:http sends a string and the headers in one write instead of two, which saves 4 % of the CPU of a call. In
      // latin1, each character is one byte, so no byte changes.
      const isAscii = typeof body === "string" && Buffer.byteLength(body) === body.length;
      res.end(isAscii ? body : bodyBytes(body).toString("latin1"), "latin1");
    } else {
      res.end(bodyBytes(body));
    }
    // If the kernel has accepted the response, the response needs no memory, so do not charge the client for it. A
    // response that waits in a pipeline has no socket yet.
    const isTaken = res.writableFinished || (res.socket !== null && req.socket.writableLength === 0);
    if (!isTaken) this.chargeResponse(body.length);
    // Discard the rest of the body. If the connection closed with unread bytes, the client could lose the response. If
    // the rest arrives too slowly, node:http ends the request.
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
    // node:http does not finish a waiting pipelined response when the connection closes.
    return this.response.writableFinished || this.req.socket.destroyed;
  }

  protected abandon(): void {
    this.req.socket.destroy();
  }
}
