import type { ServerResponse } from "node:http";
import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";

/** The socket of each HTTP/2 connection: node:http2 hands out one that cannot be ended. */
const sockets = new WeakMap<Http2Session, Socket>();

/** Ends an HTTP/2 connection whose other end does not read: by itself it would wait for what is still to be written. */
export function endConnection(session: Http2Session): void {
  session.destroy();
  sockets.get(session)?.destroy();
}

/** How often idle connections are looked for, at most, in milliseconds. */
const LOOK_MS = 1000;

/** How many looks a connection must have been silent for to make room. */
const SILENT_LOOKS = 2;

/** Which share of all connections makes room at once. */
const SHARE = 1 / 16;

/** A connection that is open. */
interface Connection {
  /** As it was accepted; over TLS, what the other is written to. */
  readonly socket: Socket;
  /** What HTTP/1.1 is read from; undefined before that is known, and for HTTP/2. */
  http1: (Socket & { readonly _httpMessage?: ServerResponse | null }) | undefined;
  session: Http2Session | undefined;
  /** What had come when idle connections were looked for last, in bytes. */
  bytesRead: number;
  /** How many looks found nothing new. */
  silentLooks: number;
}

/**
 * The connections of a port, and their limit. When there is no room, those that
 * have been silent are closed: whoever opens many and leaves it at that keeps
 * nobody out. When none is idle the new one is closed before anything is read
 * of it.
 */
export class Connections {
  readonly #max: number;
  readonly #open = new Map<Socket, Connection>();
  /** By the other end's address: node:tls does not tell which connection a secure one is written to. */
  readonly #byPeer = new Map<string, Connection>();
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isDraining = false;

  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a connection that was accepted; false when there is no room, and then it is closed. */
  accept(socket: Socket): boolean {
    socket.on("error", () => {});
    if (this.#open.size >= this.#max && !this.#makeRoom()) {
      socket.destroy();
      return false;
    }
    const peer = peerOf(socket);
    const connection = { socket, http1: undefined, session: undefined, bytesRead: -1, silentLooks: 0 };
    this.#open.set(socket, connection);
    this.#byPeer.set(peer, connection);
    socket.once("close", () => {
      this.#open.delete(socket);
      if (this.#byPeer.get(peer) === connection) this.#byPeer.delete(peer);
    });
    return true;
  }

  /** A connection speaks HTTP/1.1. */
  speaksHttp1(socket: Socket): void {
    const connection = this.#of(socket);
    if (connection) connection.http1 = socket;
  }

  /** A connection speaks HTTP/2. */
  speaksHttp2(socket: Socket, session: Http2Session): void {
    sockets.set(session, socket);
    const connection = this.#of(socket);
    if (connection) connection.session = session;
    if (this.#isDraining) session.close();
  }

  /** Closes what has not said what it speaks, and lets HTTP/2 connections end with their streams. */
  drain(): void {
    this.#isDraining = true;
    for (const { socket, http1, session } of this.#open.values()) {
      if (session) session.close();
      else if (!http1) socket.destroy();
    }
  }

  /** Ends all of them now. */
  destroy(): void {
    for (const { socket, session } of this.#open.values()) {
      session?.destroy();
      socket.destroy();
    }
  }

  #of(socket: Socket): Connection | undefined {
    return this.#open.get(socket) ?? this.#byPeer.get(peerOf(socket));
  }

  /** Whether connections that were silent have been closed, or told to close. */
  #makeRoom(): boolean {
    const now = performance.now();
    if (now - this.#lookedAt < LOOK_MS) return false;
    this.#lookedAt = now;
    let left = Math.ceil(this.#max * SHARE);
    for (const connection of this.#open.values()) {
      const { socket, http1, session } = connection;
      const { bytesRead } = socket;
      connection.silentLooks = bytesRead === connection.bytesRead ? connection.silentLooks + 1 : 0;
      connection.bytesRead = bytesRead;
      if (left === 0 || connection.silentLooks < SILENT_LOOKS || http1?._httpMessage) continue;
      left--;
      // HTTP/2 closes at once when it has no streams, and when they have ended else.
      if (session) session.close();
      else socket.destroy();
    }
    return this.#open.size < this.#max;
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
