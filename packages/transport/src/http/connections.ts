import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "node:timers";
import { bodyBytes, type HttpResponse } from "../http-types.ts";
import { type ClientOf, HEADER_TOO_LARGE, type Limits, MAX_PIPELINED, requestTimeoutMs } from "../limits.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { discard } from "./body.ts";
import { ClientBudget, type Resource } from "./client-budget.ts";
import type { Http2Connection } from "./http2-connection.ts";
import { plainAddress, type RequestContext } from "./server-request.ts";

/** By default, a connection is idle if no data has arrived for this time, in milliseconds. */
const IDLE_MS = 1000;

/** The time in which the calls of an evicted HTTP/2 connection may finish, in milliseconds. */
const LAST_CALLS_MS = 1000;

const CHECK_MS = 50;

class Connection implements Resource {
  /** The accepted TCP socket. If the connection uses TLS, the TLS socket is a different object. */
  readonly socket: Socket;
  /** Undefined if the connection uses HTTP/2, and as long as its protocol is not known. */
  http1: Http1Connection | undefined;
  http2: Http2Connection | undefined;
  #bytesRead = -1;
  /** The time at which `isIdle` first read the value of `#bytesRead`, by `performance.now()`. */
  #silentSince = 0;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  /**
   * Returns whether no request is in flight and no byte has arrived for `forMs` milliseconds. The time counts from the
   * first call of this method after the last byte.
   */
  isIdle(forMs = IDLE_MS): boolean {
    const { bytesRead } = this.socket;
    const now = performance.now();
    if (bytesRead !== this.#bytesRead) {
      this.#bytesRead = bytesRead;
      this.#silentSince = now;
    }
    return now - this.#silentSince >= forMs && !(this.http1 ?? this.http2)?.isBusy;
  }

  evict(): void {
    const { http2, socket } = this;
    if (!http2) {
      socket.destroy();
      return;
    }
    // `close` sends GOAWAY with the id of the last stream that the server processes. If the client has opened streams
    // after that stream, the client repeats the calls of the later streams on another connection.
    http2.session.close();
    setTimeout(() => http2.end(), LAST_CALLS_MS).unref();
  }

  /** Closes the connection when its calls in flight end. An idle HTTP/1.1 connection closes after one more call. */
  announceEnd(): void {
    this.http2?.session.close();
    this.http1?.closeAfterNext();
  }
}

/** The connections of a port. */
export class Connections {
  readonly #budget: ClientBudget;
  readonly #clientOf: ClientOf;
  /**
   * The open connections by their addresses and ports. The TCP socket cannot be the key, because node:tls does not
   * expose the TCP socket of a TLS socket.
   */
  readonly #open = new Map<string, Connection>();
  #isDraining = false;

  constructor({ maxConnections, clientOf }: Limits) {
    this.#budget = new ClientBudget(maxConnections);
    this.#clientOf = clientOf;
  }

  /** Registers a connection. If the budget has no room, closes the connection, reads no data, and returns false. */
  accept(socket: Socket): boolean {
    socket.on("error", () => {});
    const connection = new Connection(socket);
    const charge = this.#budget.charge(this.#clientOf(plainAddress(socket.remoteAddress)), connection);
    if (!charge) {
      socket.destroy();
      return false;
    }
    const key = keyOf(socket);
    this.#open.set(key, connection);
    socket.once("close", () => {
      charge.release();
      // Sockets that were closed before their acceptance have no addresses, so their keys are equal.
      if (this.#open.get(key) === connection) this.#open.delete(key);
    });
    return true;
  }

  /** Records the protocol of a connection. */
  identify(socket: Socket, { http1, http2 }: Partial<Pick<Connection, "http1" | "http2">>): void {
    const connection = this.#open.get(keyOf(socket));
    if (!connection) return;
    connection.http1 = http1;
    connection.http2 = http2;
    if (this.#isDraining) connection.announceEnd();
  }

  /**
   * Closes every connection, but loses no request in transit. Before it closes a connection, the server announces this
   * to an HTTP/2 client by GOAWAY, and to an HTTP/1.1 client by `Connection: close` in the next response.
   *
   * @param quietMs the time in milliseconds after which a silent HTTP/1.1 connection is closed without announcement. A
   * silent connection has no request in flight and receives no data. Default: `IDLE_MS`
   * @returns a function that stops checking for silent connections; call it when all connections are closed
   */
  drain(quietMs = IDLE_MS): () => void {
    this.#isDraining = true;
    for (const connection of this.#open.values()) connection.announceEnd();
    const closeSilent = () => {
      for (const connection of this.#open.values()) {
        if (!connection.http2 && connection.isIdle(quietMs)) connection.socket.destroy();
      }
    };
    closeSilent();
    // After a pause of the process, timers run before sockets are read. `setImmediate` delays the check until the
    // sockets are read.
    const timer = setInterval(() => setImmediate(closeSilent), CHECK_MS);
    return () => clearInterval(timer);
  }

  destroy(): void {
    for (const { socket, http2 } of this.#open.values()) {
      http2?.session.destroy();
      socket.destroy();
    }
  }
}

/**
 * Returns the same key for a TCP socket and its TLS socket. The key contains the local address, because a client can
 * connect to several local addresses from the same port.
 */
function keyOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}

type Incoming = [req: IncomingMessage & { upgrade?: boolean }, keepAlive: boolean];

/** A socket with the parser of node:http. The parser passes every request to `onIncoming`. */
interface ParsedSocket extends Socket {
  readonly parser?: { onIncoming: ((...incoming: Incoming) => number) | null } | null;
}

const http1Connections = new WeakMap<Socket, Http1Connection>();

/**
 * An HTTP/1.1 connection. Serves one request at a time, because node:http would serve all pipelined requests of a
 * packet in one turn of the event loop. Such a packet may contain thousands of requests. Responds to requests that
 * node:http refuses.
 */
export class Http1Connection {
  readonly peerAddress: string;
  readonly #socket: ParsedSocket;
  /** The latest response; undefined after the response is written and the whole request has arrived. */
  #latest: ServerResponse | undefined;
  /** Passes a request to node:http. */
  #serve: ((...incoming: Incoming) => number) | null | undefined;
  /** The pipelined requests that wait behind the current request. While a request waits, no more bytes are read. */
  readonly #pipelined: Incoming[] = [];
  /** Responds to a request that node:http has refused. Called after the earlier pipelined requests are answered. */
  #refuseLast: (() => void) | undefined;
  #isOver = false;
  /**
   * If true, the connection closes after the last waiting request. If no request waits, it closes after the next
   * request.
   */
  #isClosing = false;
  #isBroken = false;

  constructor(socket: Socket) {
    this.peerAddress = plainAddress(socket.remoteAddress);
    this.#socket = socket;
    http1Connections.set(socket, this);
  }

  /** Returns the connection of a socket that node:http serves. */
  static of(socket: Socket): Http1Connection {
    return http1Connections.get(socket) as Http1Connection;
  }

  /** Whether a request is in flight, or a response is not completely sent. */
  get isBusy(): boolean {
    return this.#latest?.writableFinished === false || this.#pipelined.length > 0 || this.#socket.writableLength > 0;
  }

  /**
   * Delays each pipelined request until the requests before it are answered. Call this method after node:http has
   * received the connection.
   */
  servePipelinedInTurn(): void {
    const { parser } = this.#socket;
    if (!parser) return;
    this.#serve = parser.onIncoming;
    parser.onIncoming = (...incoming) => {
      const pipelined = this.#pipelined;
      if (this.#isOver) return 0;
      const [latest, [req]] = [this.#latest, incoming];
      // The response to a refused request stays `#latest` until the body of the request has arrived. The parser passes
      // on the next request after that.
      if (latest?.writableFinished !== false && pipelined.length === 0) return this.#serve?.(...incoming) ?? 0;
      // A request with `Upgrade`, or a CONNECT, cannot wait, because node:http must receive it immediately.
      if (this.#isClosing || req.upgrade) {
        // If `upgrade` stayed set, Deno would destroy the socket before the earlier requests are answered.
        if (req.method !== "CONNECT") req.upgrade = false;
        this.closeAfterNext();
        return 0;
      }
      this.#socket.pause();
      if (pipelined.push(incoming) === 1) latest?.once("close", this.#serveLater);
      if (pipelined.length === MAX_PIPELINED) this.#isClosing = true;
      return 0;
    };
  }

  /** Serves the next request in the next turn of the event loop, so that other connections are read first. */
  readonly #serveLater = () => void setImmediate(this.#serveNext);

  readonly #serveNext = () => {
    const incoming = this.#isOver ? undefined : this.#pipelined.shift();
    if (!incoming || this.#socket.destroyed) {
      this.#pipelined.length = 0;
      return;
    }
    this.#serve?.(...incoming);
    if (this.#pipelined.length > 0) {
      if (this.#latest?.writableFinished === false) this.#latest.once("close", this.#serveLater);
      else this.#serveLater();
      return;
    }
    this.#refuseLast?.();
    this.#socket.resume();
  };

  /**
   * Returns whether the server must answer a request. After a request with `Upgrade`, the connection closes, because
   * the parser drops the rest of the packet. The client repeats unanswered requests on a new connection (RFC 9112,
   * 9.3.2).
   */
  takes(res: ServerResponse): boolean {
    if (this.#isOver) return false;
    this.#latest = res;
    const isLast = this.#isClosing && this.#pipelined.length === 0;
    if (res.req.headers.upgrade !== undefined || isLast) this.closeAfter(res);
    // A response that waits behind another response has no socket yet.
    if (res.socket === null) this.writesOverTime(res);
    return true;
  }

  /** Call this method before a complete response is written in one step. */
  writesWhole(res: ServerResponse): void {
    // A waiting response stays `#latest` until it is sent, because later responses must follow it.
    if (res.socket !== null && res.req.complete && this.#latest === res) this.#latest = undefined;
  }

  /** Call this method before a response is written in several steps. */
  writesOverTime(res: ServerResponse): void {
    res.once("close", () => {
      if (this.#latest === res) this.#latest = undefined;
    });
  }

  /**
   * Closes the connection after the waiting pipelined requests. If no request waits, closes after the next response.
   */
  closeAfterNext(): void {
    this.#isClosing = true;
    // If the headers of the latest response are already sent, they do not contain `Connection: close`. In this case,
    // the connection closes after the next request.
    if (this.#pipelined.length === 0 && this.#latest?.headersSent === false) this.closeAfter(this.#latest);
  }

  /** Answers the requests before a CONNECT, then closes the connection. The CONNECT receives no response. */
  refuseTunnel(): void {
    // The connection closes after the last pipelined request.
    if (this.#pipelined.length > 0) return;
    if (this.#latest) this.closeAfter(this.#latest);
    else endSocket(this.#socket);
  }

  closeAfter(res: ServerResponse): void {
    const socket = this.#socket;
    this.#isOver = true;
    if (res.writableFinished) endSocket(socket);
    else if (res.headersSent) res.once("finish", () => endSocket(socket));
    else {
      res.setHeader("connection", "close");
      // node:http would close the socket immediately. If more bytes arrived after that, the client could lose the
      // response.
      socket.destroySoon = () => endSocket(socket);
    }
  }

  /**
   * Responds to a request that node:http refuses. node:http itself would send only a status, and could send this status
   * before the responses to earlier requests.
   */
  onClientError(error: NodeJS.ErrnoException, context: Pick<RequestContext, "refuse" | "limits">): void {
    const [socket, res] = [this.#socket, this.#latest];
    // Before the second error and before each later error, Deno adds the same `error` listener again. Remove the copy.
    const [before, last] = socket.listeners("error").slice(-2) as (() => void)[];
    if (last && last === before) socket.off("error", last);
    if (this.#pipelined.length > 0 && socket.writable) {
      this.#refuseLast ??= () => this.onClientError(error, context);
      return;
    }
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    // After a parse error, the parser reports an error again for the rest of the data. Ignore this error.
    if (this.#isBroken) return;
    this.#isBroken = true;
    if (res && (res.req.complete || res.writableEnded)) {
      // The connection closes after the earlier response. The refused request receives no response, so the client
      // repeats this request on a new connection.
      this.closeAfter(res);
    } else if (res?.headersSent) {
      socket.destroy();
    } else if (!res && (this.#isOver || error.code === "HPE_CLOSED_CONNECTION")) {
      // The last response is written. Later requests get no response.
      endSocket(socket);
    } else {
      const { status, headers, body } = context.refuse(parserRefusal(error, context.limits), {});
      if (!res) {
        endSocket(socket, encodeResponse({ status, headers: { ...headers, connection: "close" }, body }));
        return;
      }
      this.closeAfter(res);
      res.writeHead(status, headers);
      res.end(bodyBytes(body));
    }
  }
}

function parserRefusal({ code }: NodeJS.ErrnoException, limits: Limits): Refusal {
  if (code === "HPE_HEADER_OVERFLOW") return HEADER_TOO_LARGE;
  if (code !== "ERR_HTTP_REQUEST_TIMEOUT") return { kind: "malformed-http" };
  return {
    kind: "request-timeout",
    headerMs: limits.headerTimeoutMs,
    requestMs: requestTimeoutMs(limits),
  };
}

function encodeResponse({ status, headers, body }: HttpResponse): Uint8Array {
  const fields = Object.entries({ ...headers, date: new Date().toUTCString() })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${String(value)}\r\n`);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${fields.join("")}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), bodyBytes(body)]);
}

/** The maximum time for which a closing connection is still read, in milliseconds. */
const LINGER_MS = 5000;

/**
 * Stops writing to a connection, and discards arriving data until the client closes the connection, for at most
 * `LINGER_MS`. If the server closed the connection immediately, the client could lose the response.
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
