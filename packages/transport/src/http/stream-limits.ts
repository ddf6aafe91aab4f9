import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { MAX_HTTP2_STREAMS } from "../limits.ts";

/** The number of streams that all connections share. When they are granted, new connections get only a small limit. */
const ALL_STREAMS = 1024;

/** The share of the free streams that a new connection gets. */
const FIRST_SHARE = 1 / 4;

/** The limit of a new connection without free streams. With more than 128 connections, it is an equal share of `ALL_STREAMS`. */
const SMALL_LIMIT = 8;

interface Connection {
  limit: number;
  /** The number of open streams. */
  open: number;
  /** Whether the client has yet to acknowledge a higher limit. No limit rises after the connection is closed. */
  isRaising: boolean;
}

/**
 * The limits of open HTTP/2 streams (SETTINGS_MAX_CONCURRENT_STREAMS). An open stream uses memory and CPU before its call can be
 * refused. So a worker opens only as many as it can serve, and further calls wait at the client.
 *
 * A connection that uses half of its streams gets more if some are free. Limits only rise, because clients on grpc-core stop
 * sending when the limit of an open connection falls.
 */
export class StreamLimits {
  #connections = 0;
  /** The sum of the limits of all connections. */
  #granted = 0;

  /** The limit for the first SETTINGS frame of a new connection. */
  next(): number {
    const small = Math.max(1, Math.min(SMALL_LIMIT, Math.floor(ALL_STREAMS / (this.#connections + 1))));
    return Math.min(MAX_HTTP2_STREAMS, Math.max(small, Math.floor(this.#free * FIRST_SHARE)));
  }

  /** Raises the limit of a new connection while the connection uses it. @param limit the result of `next` */
  add(session: ServerHttp2Session, socket: Socket, limit: number): void {
    const connection: Connection = { limit, open: 0, isRaising: false };
    const closed = () => {
      connection.open--;
    };
    session.on("stream", (stream: ServerHttp2Stream) => {
      connection.open++;
      stream.once("close", closed);
      this.#raiseIfUsed(connection, session);
    });
    this.#countUntilClosed(connection, socket);
  }

  /** Counts by the socket, because a destroyed session may emit no event. The listener must not reference the session. */
  #countUntilClosed(connection: Connection, socket: Socket): void {
    this.#connections++;
    this.#granted += connection.limit;
    socket.once("close", () => {
      this.#connections--;
      this.#granted -= connection.limit;
      connection.isRaising = true;
    });
  }

  #raiseIfUsed(connection: Connection, session: ServerHttp2Session): void {
    const { limit, open, isRaising } = connection;
    // Some clients fail at the limit instead of waiting, so it rises before it is reached.
    const more = Math.min(limit, MAX_HTTP2_STREAMS - limit, this.#free);
    if (open <= limit / 2 || more === 0 || isRaising || session.destroyed) return;
    connection.limit += more;
    connection.isRaising = true;
    this.#granted += more;
    session.settings({ maxConcurrentStreams: connection.limit }, (error) => {
      // The session has ended without an acknowledgement.
      if (error) return;
      connection.isRaising = false;
      this.#raiseIfUsed(connection, session);
    });
  }

  get #free(): number {
    return Math.max(0, ALL_STREAMS - this.#granted);
  }
}
