import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import { MAX_HTTP2_STREAMS } from "../limits.ts";

/** The number of streams that all connections share. When they are granted, new connections get only a small limit. */
const ALL_STREAMS = 1024;

/** The share of the free streams that a new connection gets. */
const FIRST_SHARE = 1 / 4;

/** The limit of a new connection without free streams. With more than 128 connections, it is an equal share of `ALL_STREAMS`. */
const SMALL_LIMIT = 8;

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

  /** Raises the limit of a new connection when the connection uses it. @param limit the result of `next` */
  add(session: ServerHttp2Session, limit: number): void {
    let current = limit;
    let open = 0;
    let isRaising = false;
    // Some clients fail at the limit instead of waiting, so it rises before it is reached.
    const raiseIfUsed = () => {
      const more = Math.min(current, MAX_HTTP2_STREAMS - current, this.#free);
      if (open <= current / 2 || more === 0 || isRaising) return;
      current += more;
      this.#granted += more;
      isRaising = true;
      session.settings({ maxConcurrentStreams: current }, () => {
        isRaising = false;
        raiseIfUsed();
      });
    };
    const closed = () => {
      open--;
    };
    session.on("stream", (stream: ServerHttp2Stream) => {
      open++;
      stream.once("close", closed);
      raiseIfUsed();
    });
    session.once("close", () => {
      this.#connections--;
      this.#granted -= current;
    });
    this.#connections++;
    this.#granted += current;
  }

  get #free(): number {
    return Math.max(0, ALL_STREAMS - this.#granted);
  }
}
