import type { Socket } from "node:net";
import { afterReading } from "../protocol/after-reading.ts";

/** The maximum number of new HTTP/1.1 connections that are served in one turn of the event loop. */
const PER_TURN = 16;

interface Arrival {
  readonly socket: Pick<Socket, "destroyed">;
  readonly weight: number;
  readonly serve: () => void;
}

interface ArrivalOptions {
  /** The address or network of the client. */
  readonly client: string;
  readonly isHttp2: boolean;
}

/**
 * Serves new connections over several turns of the event loop. The first bytes of an HTTP/2 connection may contain 100
 * requests, which take about 2 ms. If one turn served 100 HTTP/2 connections, the calls of other clients would wait 200
 * ms.
 *
 * A client can open thousands of connections, so the server serves one connection of each client in rotation. Node 20
 * accepts only one connection in each turn, so long turns would delay the connections of other clients. While
 * connections arrive, the server therefore serves only one HTTP/1.1 connection in each turn, or one HTTP/2 connection
 * in 16 turns.
 */
export class Arrivals {
  /** The waiting connections by client. The first client in the map is served next. */
  readonly #waiting = new Map<string, Arrival[]>();
  /** The number of HTTP/1.1 connections that may be served now. An HTTP/2 connection counts as `PER_TURN`. */
  #credit = PER_TURN;
  /** Whether a connection has arrived in this turn of the event loop. */
  #hasArrived = false;
  #isScheduled = false;

  /**
   * Serves a connection in this turn of the event loop or in a later turn. Does not serve a connection that has closed.
   */
  add(socket: Pick<Socket, "destroyed">, { client, isHttp2 }: ArrivalOptions, serve: () => void): void {
    const arrivals = this.#waiting.get(client) ?? [];
    arrivals.push({ socket, weight: isHttp2 ? PER_TURN : 1, serve });
    this.#waiting.set(client, arrivals);
    this.#hasArrived = true;
    this.#serve();
  }

  #serve(): void {
    while (this.#credit > 0) {
      const next = this.#next();
      if (!next) break;
      this.#credit -= next.weight;
      next.serve();
    }
    if (this.#credit === PER_TURN || this.#isScheduled) return;
    this.#isScheduled = true;
    afterReading(this.#endTurn);
  }

  #next(): Arrival | undefined {
    for (const [client, arrivals] of this.#waiting) {
      this.#waiting.delete(client);
      // Skip closed connections: a client that opens and closes connections must not delay other new connections.
      let next = arrivals.shift();
      while (next?.socket.destroyed) next = arrivals.shift();
      if (arrivals.length > 0) this.#waiting.set(client, arrivals);
      if (next) return next;
    }
    return undefined;
  }

  readonly #endTurn = () => {
    this.#isScheduled = false;
    this.#credit = Math.min(PER_TURN, this.#credit + (this.#hasArrived ? 1 : PER_TURN));
    this.#hasArrived = false;
    this.#serve();
  };
}
