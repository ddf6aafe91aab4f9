import type { Socket } from "node:net";
import { afterReading } from "../protocol/after-reading.ts";

/** The number of new HTTP/1.1 connections that are served in one turn of the event loop. */
const PER_TURN = 16;

interface Arrival {
  readonly socket: Pick<Socket, "destroyed">;
  readonly weight: number;
  readonly serve: () => void;
}

/**
 * Serves new connections over several turns of the event loop. The first bytes of an HTTP/2 connection may contain 100
 * requests, which take about 2 ms. If one turn served 80 HTTP/2 connections, the calls of other clients would wait
 * 200 ms.
 */
export class Arrivals {
  readonly #waiting: Arrival[] = [];
  #isScheduled = false;
  /** The number of connections served in this turn. An HTTP/2 connection counts as `PER_TURN` connections. */
  #served = 0;

  /**
   * Serves a connection in this turn of the event loop or in a later turn. Does not serve a connection that has closed.
   */
  add(socket: Pick<Socket, "destroyed">, isHttp2: boolean, serve: () => void): void {
    this.#waiting.push({ socket, weight: isHttp2 ? PER_TURN : 1, serve });
    this.#serve();
  }

  #serve(): void {
    while (this.#served < PER_TURN) {
      const next = this.#waiting.shift();
      if (!next) return;
      // Skip closed connections: a client that opens and closes connections must not delay other new connections.
      if (next.socket.destroyed) continue;
      this.#served += next.weight;
      if (!this.#isScheduled) afterReading(this.#endTurn);
      this.#isScheduled = true;
      next.serve();
    }
  }

  readonly #endTurn = () => {
    this.#isScheduled = false;
    this.#served = 0;
    this.#serve();
  };
}
