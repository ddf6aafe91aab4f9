import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { bodyBytes, type HeaderRecord, type HttpResponse } from "../exchange.ts";
import { HEADER_TOO_LARGE, REQUEST_TIMEOUT } from "../limits.ts";
import type { Refusal, Refuse } from "../protocol/refusals.ts";
import { discard } from "./body.ts";
import { ignore, plainAddress, type RequestContext, ServerRequest } from "./server-request.ts";

/**
 * How many pipelined requests may wait behind the current one. Clients that pipeline at all send a few. Without a limit
 * node:http would accept as many as fit in a packet, which can be thousands.
 */
const MAX_WAITING = 32;

/** node:http keeps the parser on the socket. The parser passes every request to this callback. */
interface ParsedSocket extends Socket {
  readonly parser?: { onIncoming: (() => number) | null } | null;
}

const connections = new WeakMap<Socket, Http1Connection>();

/** An HTTP/1.1 connection: which requests it serves, and what becomes of those that node:http itself refuses. */
export class Http1Connection {
  readonly #socket: ParsedSocket;
  /** The response to the latest request, until it is written and the request is complete. */
  #latest: ServerResponse | undefined;
  /** How many responses are queued behind another. */
  #waiting = 0;
  /** Whether it serves no further requests. */
  #isOver = false;
  /** Whether the parser has failed, and would fail again. */
  #isBroken = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static of(socket: Socket): Http1Connection {
    let connection = connections.get(socket);
    if (connection === undefined) {
      connection = new Http1Connection(socket);
      connections.set(socket, connection);
    }
    return connection;
  }

  /** Whether a request is being served, or its response has not been sent. */
  get isBusy(): boolean {
    return this.#latest?.writableFinished === false || this.#socket.writableLength > 0;
  }

  /**
   * Whether to serve a request. Some are the last that their connection serves: a pipelined one that reaches the limit,
   * and one that asks for another protocol, because the parser then drops the rest of the packet. Later ones are ignored,
   * and the client has to send them again on a new connection (RFC 9112, 9.3.2).
   */
  takes(res: ServerResponse): boolean {
    if (this.#isOver) return false;
    this.#latest = res;
    if (res.req.headers.upgrade !== undefined) this.closeAfter(res);
    // Only a response that is queued behind another has no socket yet.
    if (res.socket !== null) return true;
    this.#waiting++;
    res.once("close", () => {
      this.#waiting--;
    });
    this.keeps(res);
    if (this.#waiting === MAX_WAITING) this.closeAfter(res);
    return true;
  }

  /** Call when a whole response is written. */
  writes(res: ServerResponse): void {
    // One that is queued comes before whatever is sent later, until it is sent itself.
    if (res.socket !== null && res.req.complete) this.#done(res);
  }

  /** Call when a response is written over time. */
  keeps(res: ServerResponse): void {
    res.once("close", () => this.#done(res));
  }

  /** Makes a response the last, after which the connection closes. */
  closeAfter(res: ServerResponse): void {
    const socket = this.#socket;
    this.#isOver = true;
    // The parser still parses the rest of the packet; its requests must not be kept.
    if (socket.parser) socket.parser.onIncoming = () => 0;
    if (res.writableFinished) endSocket(socket);
    else if (res.headersSent) res.once("finish", () => endSocket(socket));
    else {
      res.setHeader("connection", "close");
      // node:http would close the socket at once, and what is still arriving would lose the response on its way.
      socket.destroySoon = () => endSocket(socket);
    }
  }

  /**
   * Answers what node:http refuses, in place of its bare status: behind the responses to what came before, which it would
   * otherwise overtake.
   */
  fail(error: NodeJS.ErrnoException, refuse: Refuse): void {
    const [socket, res] = [this.#socket, this.#latest];
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    // After a parse error, the rest of the data fails to parse as well.
    if (this.#isBroken) return;
    this.#isBroken = true;
    if (res && (res.req.complete || res.writableEnded)) {
      // Clients send again what gets no answer before the connection closes.
      this.closeAfter(res);
    } else if (res?.headersSent) {
      socket.destroy();
    } else if (!res && (this.#isOver || error.code === "HPE_CLOSED_CONNECTION")) {
      // The last response is written, though the socket may not have ended yet: what comes behind it gets no answer.
      endSocket(socket);
    } else {
      const { status, headers, body } = refuse(refusalOf(error), {});
      if (!res) {
        endSocket(socket, bytesOf({ status, headers: { ...headers, connection: "close" }, body }));
        return;
      }
      this.closeAfter(res);
      res.writeHead(status, headers);
      res.end(bodyBytes(body));
    }
  }

  #done(res: ServerResponse): void {
    if (this.#latest === res) this.#latest = undefined;
  }
}

function refusalOf({ code }: NodeJS.ErrnoException): Refusal {
  if (code === "HPE_HEADER_OVERFLOW") return HEADER_TOO_LARGE;
  return code === "ERR_HTTP_REQUEST_TIMEOUT" ? REQUEST_TIMEOUT : { kind: "malformed-http" };
}

function bytesOf({ status, headers, body }: HttpResponse): Uint8Array {
  const fields = Object.entries({ ...headers, date: new Date().toUTCString() })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${String(value)}\r\n`);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${fields.join("")}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), bodyBytes(body)]);
}

/** Whether node:http writes headers and a string body in one piece. Deno's does not. */
const MERGES_TEXT_WITH_HEADER = !("Deno" in globalThis);

/**
 * The longest body that is converted to a string, in bytes. For longer ones the conversion costs more than a second
 * write.
 */
const MAX_MERGED_BYTES = 4096;

/** A request over HTTP/1.1, and its response. */
export class Http1Request extends ServerRequest {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #connection: Http1Connection;
  /** Whether the client waits to be asked for the body. */
  awaitsContinue = false;

  constructor(res: ServerResponse, connection: Http1Connection, context: RequestContext) {
    super(res, context);
    const { req } = res;
    req.on("error", ignore);
    this.httpMethod = req.method ?? "";
    this.target = req.url ?? "/";
    this.headers = req.headers as HeaderRecord;
    this.#req = req;
    this.#res = res;
    this.#connection = connection;
  }

  /**
   * node:http does not tell a response that is queued in a pipeline when its connection closes. One whose request broke
   * off is answered already.
   */
  get isDisconnected(): boolean {
    return this.#res.destroyed || this.#res.closed || this.#res.writableEnded || this.#req.socket.destroyed;
  }

  peerAddress(): string {
    return plainAddress(this.#req.socket.remoteAddress);
  }

  protected get isEncrypted(): boolean {
    return "encrypted" in this.#req.socket;
  }

  protected openBody(): IncomingMessage | undefined {
    if (!hasBody(this.#req)) return undefined;
    if (this.awaitsContinue) this.#res.writeContinue();
    this.awaitsContinue = false;
    return this.#req;
  }

  protected handOver(): [req: IncomingMessage, res: ServerResponse] {
    const [req, res, connection] = [this.#req, this.#res, this.#connection];
    this.openBody();
    connection.keeps(res);
    const { writeHead } = res;
    res.writeHead = ((...args: never[]) => {
      // Connect's adapter then stops reading the request, and the next one would wait behind the unread rest.
      if (!req.complete) connection.closeAfter(res);
      return Reflect.apply(writeHead, res, args);
    }) as never;
    return [req, res];
  }

  protected respond({ status, headers, body, trailers }: HttpResponse): void {
    const [req, res] = [this.#req, this.#res];
    if (this.isDisconnected) return;
    // Whether the body still comes is up to the client (RFC 9110, 10.1.1).
    if (this.awaitsContinue && hasBody(req)) this.#connection.closeAfter(res);
    this.#connection.writes(res);
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
    if ((res.socket === null || req.socket.writableLength > 0) && !res.writableFinished) this.charge(body.length);
    // Closing the connection with unread bytes could lose the response on its way. node:http ends a request that takes
    // too long.
    if (!req.readableEnded && hasBody(req)) discard(req, () => req.destroy());
  }

  override refuse(refusal: Refusal): void {
    this.#connection.closeAfter(this.#res);
    super.refuse(refusal);
  }

  protected reset(): void {
    this.#res.destroy();
  }

  protected get isWritten(): boolean {
    // node:http does not tell a response that is queued in a pipeline when its connection closes.
    return this.#res.writableFinished || this.#req.socket.destroyed;
  }

  protected abandon(): void {
    this.#req.socket.destroy();
  }
}

/** Whether a request has a body (RFC 9112, 6.3). */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
}

/** A string whose latin1 encoding is the body. */
function latin1Of(body: Uint8Array | string): string {
  // An ASCII string has as many bytes as characters.
  if (typeof body === "string" && Buffer.byteLength(body) === body.length) return body;
  const { buffer, byteOffset, byteLength } = bodyBytes(body);
  return Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
}

/** How long a closing connection is still read, in milliseconds. */
const LINGER_MS = 5000;

/**
 * Closes a connection. Discards up to 16 MiB of what still arrives, because closing at once could lose the response.
 *
 * @param last bytes to write before closing
 */
function endSocket(socket: Socket, last?: Uint8Array): void {
  if (socket.destroyed) return;
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
  discard(socket, () => socket.destroy());
  if (last) socket.end(last);
  else socket.end();
}
