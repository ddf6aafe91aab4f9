import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { Http1Connection } from "./http1-connection.ts";

/**
 * The socket of each open HTTP/2 connection. node:http2 exposes only a proxy that cannot be destroyed.
 *
 * A closed socket must not stay here. Node keeps a session whose SETTINGS were never acknowledged for as long as its
 * handle, and the socket may hold that handle: by the error that ended the session, whose unread stack trace lists it.
 * While the session leads to the socket, that is a cycle through native memory, which is never collected.
 */
const sockets = new WeakMap<Http2Session, Socket>();

/**
 * Closes an HTTP/2 connection whose peer does not read. Otherwise node:http2 would wait until all pending data is
 * written.
 */
export function endConnection(session: Http2Session): void {
  session.destroy();
  sockets.get(session)?.destroy();
}

/** The minimum time between two searches for idle connections, in milliseconds. */
const CHECK_MS = 1000;

/** After this many checks without new data a connection counts as idle. */
const IDLE_CHECKS = 2;

/** The share of the connections that one search may close. */
const IDLE_SHARE = 1 / 16;

/** An open connection. */
interface Connection {
  /** The accepted TCP socket. Over TLS, the TLS socket is another object on top of it. */
  readonly socket: Socket;
  /** The socket that HTTP/1.1 is read from; undefined for HTTP/2, and until the protocol is known. */
  http1: Socket | undefined;
  session: Http2Session | undefined;
  /** How many bytes had arrived at the last check. */
  bytesRead: number;
  /** How many checks in a row found no new bytes. */
  idleChecks: number;
}

/**
 * The connections of a port, and their limit. At the limit, idle connections are closed, so that a client cannot lock
 * others out by opening many connections. When none is idle, the new connection is closed before anything is read from
 * it.
 */
export class Connections {
  readonly #max: number;
  readonly #open = new Map<Socket, Connection>();
  /** By remote address and port. node:tls does not tell which TCP socket a TLS socket uses. */
  readonly #byPeer = new Map<string, Connection>();
  #checkedAt = Number.NEGATIVE_INFINITY;
  #isDraining = false;

  constructor(max: number) {
    this.#max = max;
  }

  /** Registers an accepted connection. Closes it and returns false when there is no room. */
  accept(socket: Socket): boolean {
    socket.on("error", () => {});
    if (this.#open.size >= this.#max && !this.#closeIdle()) {
      socket.destroy();
      return false;
    }
    const peer = peerOf(socket);
    const connection = { socket, http1: undefined, session: undefined, bytesRead: -1, idleChecks: 0 };
    this.#open.set(socket, connection);
    this.#byPeer.set(peer, connection);
    socket.once("close", () => {
      this.#open.delete(socket);
      if (this.#byPeer.get(peer) === connection) this.#byPeer.delete(peer);
    });
    return true;
  }

  /** Records that a connection speaks HTTP/1.1. */
  speaksHttp1(socket: Socket): void {
    const connection = this.#of(socket);
    if (connection) connection.http1 = socket;
  }

  /** Records that a connection speaks HTTP/2. */
  speaksHttp2(socket: Socket, session: Http2Session): void {
    sockets.set(session, socket);
    socket.once("close", () => sockets.delete(session));
    const connection = this.#of(socket);
    if (connection) connection.session = session;
    if (this.#isDraining) session.close();
  }

  /** Closes connections whose protocol is still unknown. HTTP/2 connections close once their streams have ended. */
  drain(): void {
    this.#isDraining = true;
    for (const { socket, http1, session } of this.#open.values()) {
      if (session) session.close();
      else if (!http1) socket.destroy();
    }
  }

  /** Destroys all connections. */
  destroy(): void {
    for (const { socket, session } of this.#open.values()) {
      session?.destroy();
      socket.destroy();
    }
  }

  #of(socket: Socket): Connection | undefined {
    return this.#open.get(socket) ?? this.#byPeer.get(peerOf(socket));
  }

  /** Closes idle connections. Returns whether there is room now. */
  #closeIdle(): boolean {
    const now = performance.now();
    if (now - this.#checkedAt < CHECK_MS) return false;
    this.#checkedAt = now;
    let left = Math.ceil(this.#max * IDLE_SHARE);
    for (const connection of this.#open.values()) {
      const { socket, http1, session } = connection;
      const { bytesRead } = socket;
      connection.idleChecks = bytesRead === connection.bytesRead ? connection.idleChecks + 1 : 0;
      connection.bytesRead = bytesRead;
      if (left === 0 || connection.idleChecks < IDLE_CHECKS || (http1 && Http1Connection.of(http1).isBusy)) continue;
      left--;
      // An HTTP/2 session closes at once when it has no streams, otherwise when they have ended.
      if (session) session.close();
      else socket.destroy();
    }
    return this.#open.size < this.#max;
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
