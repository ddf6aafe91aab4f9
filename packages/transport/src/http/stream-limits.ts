import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { MAX_HTTP2_STREAMS } from "../limits.ts";

/**
 * The largest limit of a new connection, in streams. RFC 9113, 6.5.2 recommends at least 100, and many clients assume it until they
 * have read the first SETTINGS frame.
 */
const FIRST_STREAMS = 100;

/** The largest limit of a new connection while the worker is busy, in streams. */
const BUSY_STREAMS = 8;

/** A worker with this number of open streams is busy. More open streams would lower its rate. */
const MAX_OPEN = 1024;

/** With many connections, each new one gets an equal share of this number of streams. */
const SHARED_STREAMS = 8192;

interface Connection {
  limit: number;
  /** The number of open streams. */
  open: number;
  /** Whether the client has yet to acknowledge a higher limit. */
  isRaising: boolean;
}

/**
 * The limits of open HTTP/2 streams (SETTINGS_MAX_CONCURRENT_STREAMS). An open stream uses memory and CPU before its call can be
 * refused. So a worker opens only as many as it can serve, and further calls wait at the client.
 *
 * While a worker is not busy, a connection that uses half of its streams gets more. Limits only rise, because clients on grpc-core
 * stop sending when the limit of an open connection falls.
 */
export class StreamLimits {
  #connections = 0;
  /** The number of open streams of all connections. */
  #open = 0;

  /** The limit for the first SETTINGS frame of a new connection. */
  next(): number {
    const share = Math.floor(SHARED_STREAMS / (this.#connections + 1));
    return Math.max(1, this.#isBusy ? Math.min(BUSY_STREAMS, Math.floor(share / 2)) : Math.min(FIRST_STREAMS, share));
  }

  get #isBusy(): boolean {
    return this.#open >= MAX_OPEN;
  }

  /** Raises the limit of a new connection while the connection uses it. @param limit the result of `next` */
  add(session: ServerHttp2Session, socket: Socket, limit: number): void {
    const connection: Connection = { limit, open: 0, isRaising: false };
    const closed = () => {
      connection.open--;
      this.#open--;
    };
    session.on("stream", (stream: ServerHttp2Stream) => {
      connection.open++;
      this.#open++;
      stream.once("close", closed);
      this.#raiseIfUsed(connection, session);
    });
    this.#countUntilClosed(socket);
  }

  /** Counts by the socket, because a destroyed session may emit no event. The listener must not reference the session. */
  #countUntilClosed(socket: Socket): void {
    this.#connections++;
    socket.once("close", () => {
      this.#connections--;
    });
  }

  #raiseIfUsed(connection: Connection, session: ServerHttp2Session): void {
    const { limit, open, isRaising } = connection;
    // Some clients fail at the limit instead of waiting, so it rises before it is reached.
    const more = Math.min(limit, MAX_HTTP2_STREAMS - limit);
    if (open <= limit / 2 || more === 0 || this.#isBusy || isRaising || session.destroyed) return;
    connection.limit += more;
    connection.isRaising = true;
    session.settings({ maxConcurrentStreams: connection.limit }, (error) => {
      // The session has ended without an acknowledgement.
      if (error) return;
      connection.isRaising = false;
      this.#raiseIfUsed(connection, session);
    });
  }
}
