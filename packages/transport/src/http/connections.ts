import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "node:timers";
import { bodyBytes, type HttpResponse } from "../http-types.ts";
import { type ClientOf, HEADER_TOO_LARGE, type Limits, MAX_PIPELINED, requestTimeoutMs } from "../limits.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { discard } from "./body.ts";
import { ClientBudget, type Holding } from "./client-budget.ts";
import { endConnection } from "./http2-sessions.ts";
import { plainAddress, type RequestContext } from "./server-request.ts";

/** How long a connection has to be silent to be idle, in milliseconds. */
const IDLE_MS = 1000;

/** How long the calls of an HTTP/2 connection that gives way may go on, in milliseconds. */
const LAST_CALLS_MS = 1000;

/** How often connections that are to close are looked at, in milliseconds. */
const LOOK_MS = 50;

/** An open connection. */
class Connection implements Holding {
  /** The accepted TCP socket. Over TLS, the TLS socket is another object on top of it. */
  readonly socket: Socket;
  /** The socket that HTTP/1.1 is read from; undefined for HTTP/2, and until the protocol is known. */
  http1: Socket | undefined;
  session: Http2Session | undefined;
  /** How many bytes had arrived at the last call of `isIdle`, and when a call first saw so many. */
  #bytesRead = -1;
  #silentSince = 0;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  /**
   * Whether no HTTP/1.1 request is being answered and nothing has arrived for so many milliseconds. It counts them from the
   * call of this method that first saw so many bytes.
   */
  isIdle(forMs = IDLE_MS): boolean {
    const { bytesRead } = this.socket;
    const now = performance.now();
    if (bytesRead !== this.#bytesRead) {
      this.#bytesRead = bytesRead;
      this.#silentSince = now;
    }
    return now - this.#silentSince >= forMs && !(this.http1 && Http1Connection.of(this.http1).isBusy);
  }

  evict(): void {
    const { session, socket } = this;
    if (!session) {
      socket.destroy();
      return;
    }
    // Without streams it closes at once. GOAWAY tells the client which of its calls were not begun.
    session.close();
    setTimeout(() => endConnection(session), LAST_CALLS_MS).unref();
  }

  /** Closes once the calls under way are answered. With HTTP/1.1 and none under way, it closes after the next one. */
  announceEnd(): void {
    // GOAWAY tells the client which of its calls were not begun.
    if (this.session) this.session.close();
    else if (this.http1) Http1Connection.of(this.http1).closeAfterNext();
  }
}

/**
 * The connections of a port, whose room clients share as `ClientBudget` says. A connection for which there is no
 * room is closed before anything is read from it.
 */
export class Connections {
  readonly #budget: ClientBudget;
  readonly #clientOf: ClientOf;
  readonly #open = new Map<Socket, Connection>();
  /** By remote address and port. node:tls does not tell which TCP socket a TLS socket uses. */
  readonly #byPeer = new Map<string, Connection>();
  #isDraining = false;

  constructor({ maxConnections, clientOf }: Limits) {
    this.#budget = new ClientBudget(maxConnections);
    this.#clientOf = clientOf;
  }

  /** Registers an accepted connection. Closes it and returns false when there is no room. */
  accept(socket: Socket): boolean {
    socket.on("error", () => {});
    const connection = new Connection(socket);
    const charge = this.#budget.charge(this.#clientOf(plainAddress(socket.remoteAddress)), connection);
    if (!charge) {
      socket.destroy();
      return false;
    }
    const peer = peerOf(socket);
    this.#open.set(socket, connection);
    this.#byPeer.set(peer, connection);
    socket.once("close", () => {
      this.#budget.release(charge);
      this.#open.delete(socket);
      if (this.#byPeer.get(peer) === connection) this.#byPeer.delete(peer);
    });
    return true;
  }

  /** Records what a connection speaks: HTTP/2 in a session, else HTTP/1.1. */
  identify(socket: Socket, session?: Http2Session): void {
    const connection = this.#open.get(socket) ?? this.#byPeer.get(peerOf(socket));
    if (connection) {
      connection.session = session;
      connection.http1 = session ? undefined : socket;
    }
    if (this.#isDraining) connection?.announceEnd();
  }

  /**
   * Closes every connection without losing a request that is on its way. HTTP/2 announces the end by GOAWAY. HTTP/1.1
   * can announce it only in a response, so the next one is the last.
   *
   * @param quietMs how long a connection of HTTP/1.1 is silent before it is closed without a last response, in
   * milliseconds
   * @returns stops the search for silent connections; call it once all are closed
   */
  drain(quietMs: number): () => void {
    this.#isDraining = true;
    for (const connection of this.#open.values()) connection.announceEnd();
    const closeSilent = () => {
      for (const connection of this.#open.values()) {
        if (!connection.session && connection.isIdle(quietMs)) connection.socket.destroy();
      }
    };
    closeSilent();
    // When the process has stood still, timers run before anything is read. So it waits for what has arrived to be read.
    const timer = setInterval(() => setImmediate(closeSilent), LOOK_MS);
    return () => clearInterval(timer);
  }

  /** Destroys all connections. */
  destroy(): void {
    for (const { socket, session } of this.#open.values()) {
      session?.destroy();
      socket.destroy();
    }
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** node:http keeps the parser on the socket. The parser passes every request to this callback. */
interface ParsedSocket extends Socket {
  readonly parser?: { onIncoming: (() => number) | null } | null;
}

const http1Connections = new WeakMap<Socket, Http1Connection>();

/** An HTTP/1.1 connection: which requests it serves, and what becomes of those that node:http itself refuses. */
export class Http1Connection {
  readonly #socket: ParsedSocket;
  /** The response to the latest request, until it is written and the request is complete. */
  #latest: ServerResponse | undefined;
  /** How many responses are queued behind another. */
  #waiting = 0;
  /** Whether it serves no further requests. */
  #isOver = false;
  /** Whether the next request is the last. */
  #isClosing = false;
  /** Whether the parser has failed, and would fail again. */
  #isBroken = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static of(socket: Socket): Http1Connection {
    let connection = http1Connections.get(socket);
    if (connection === undefined) {
      connection = new Http1Connection(socket);
      http1Connections.set(socket, connection);
    }
    return connection;
  }

  /** Whether a request is being served, or its response has not been sent. */
  get isBusy(): boolean {
    return this.#latest?.writableFinished === false || this.#socket.writableLength > 0;
  }

  /**
   * Whether to serve a request. Two kinds of request are the last that their connection serves: the last pipelined one
   * that may wait, and one that asks for another protocol, because the parser then drops the rest of the packet. Later
   * requests are ignored, and the client has to send them again on a new connection (RFC 9112, 9.3.2).
   */
  takes(res: ServerResponse): boolean {
    if (this.#isOver) return false;
    this.#latest = res;
    if (res.req.headers.upgrade !== undefined || this.#isClosing) this.closeAfter(res);
    // Only a response that is queued behind another has no socket yet.
    if (res.socket !== null) return true;
    this.#waiting++;
    res.once("close", () => {
      this.#waiting--;
    });
    this.writesOverTime(res);
    if (this.#waiting === MAX_PIPELINED) this.closeAfter(res);
    return true;
  }

  /** Call when a whole response is written. */
  writesWhole(res: ServerResponse): void {
    // A queued response stays the latest until it is sent: whatever is sent later has to come behind it.
    if (res.socket !== null && res.req.complete && this.#latest === res) this.#latest = undefined;
  }

  /** Call when a response is written over time. */
  writesOverTime(res: ServerResponse): void {
    res.once("close", () => {
      if (this.#latest === res) this.#latest = undefined;
    });
  }

  /** Closes after the response that is being made, or else after the one to the next request. */
  closeAfterNext(): void {
    this.#isClosing = true;
    // Once headers are sent, the client has been told that the connection stays open.
    if (this.#latest?.headersSent === false) this.closeAfter(this.#latest);
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

  /** Responds to what node:http refuses, which would send a bare status ahead of responses to earlier requests. */
  onClientError(error: NodeJS.ErrnoException, { refuse, limits }: Pick<RequestContext, "refuse" | "limits">): void {
    const [socket, res] = [this.#socket, this.#latest];
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    // After a parse error, the rest of the data fails to parse as well.
    if (this.#isBroken) {
      // For each piece of it Deno adds the same listener once more.
      const [before, last] = socket.listeners("error").slice(-2) as (() => void)[];
      if (last && last === before) socket.off("error", last);
      return;
    }
    this.#isBroken = true;
    if (res && (res.req.complete || res.writableEnded)) {
      // Clients repeat requests that got no response before the connection closed.
      this.closeAfter(res);
    } else if (res?.headersSent) {
      socket.destroy();
    } else if (!res && (this.#isOver || error.code === "HPE_CLOSED_CONNECTION")) {
      // The last response is written, though the socket may not have ended yet. What follows it gets no response.
      endSocket(socket);
    } else {
      const { status, headers, body } = refuse(parserRefusal(error, limits), {});
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
  return { kind: "request-timeout", headerMs: limits.headerTimeoutMs, requestMs: requestTimeoutMs(limits) };
}

function encodeResponse({ status, headers, body }: HttpResponse): Uint8Array {
  const fields = Object.entries({ ...headers, date: new Date().toUTCString() })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${String(value)}\r\n`);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${fields.join("")}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), bodyBytes(body)]);
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
