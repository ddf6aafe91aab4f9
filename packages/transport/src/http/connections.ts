import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { setTimeout } from "node:timers";
import type { ClientOf, Limits } from "../limits.ts";
import { ClientBudget, type Holding } from "./client-budget.ts";
import { Http1Connection } from "./http1.ts";
import { endConnection } from "./http2-sessions.ts";
import { plainAddress } from "./server-request.ts";

/** How long a connection has to be silent to be idle, in milliseconds. */
const IDLE_MS = 1000;

/** How long the calls of an HTTP/2 connection that gives way may go on, in milliseconds. */
const LAST_CALLS_MS = 1000;

/** An open connection. */
class Connection implements Holding {
  /** The accepted TCP socket. Over TLS, the TLS socket is another object on top of it. */
  readonly socket: Socket;
  /** The socket that HTTP/1.1 is read from; undefined for HTTP/2, and until the protocol is known. */
  http1: Socket | undefined;
  session: Http2Session | undefined;
  /** How many bytes had arrived at the last look, and since when. */
  #bytesRead = -1;
  #silentSince = 0;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  /** Whether nothing has arrived between two looks, with no HTTP/1.1 request being answered. */
  isIdle(): boolean {
    const { bytesRead } = this.socket;
    const now = performance.now();
    if (bytesRead !== this.#bytesRead) {
      this.#bytesRead = bytesRead;
      this.#silentSince = now;
    }
    return now - this.#silentSince >= IDLE_MS && !(this.http1 && Http1Connection.of(this.http1).isBusy);
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
}

/**
 * The connections of a port, and their limit, which clients share as `ClientBudget` says. A connection for which there is
 * no room is closed before anything is read from it.
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
  begin(socket: Socket, session?: Http2Session): void {
    const connection = this.#open.get(socket) ?? this.#byPeer.get(peerOf(socket));
    if (connection) {
      connection.session = session;
      connection.http1 = session ? undefined : socket;
    }
    if (this.#isDraining) session?.close();
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
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
