import { afterReading } from "../protocol/after-reading.ts";

/** The number of new HTTP/1.1 connections that are served in one turn of the event loop. Each begins with one request. */
const PER_TURN = 16;

/**
 * Begins to serve new connections over several turns of the event loop. The first bytes of an HTTP/2 connection may contain 100
 * requests, which take about 2 ms. If all of 80 new connections were served in one turn, the calls of others would wait 200 ms.
 */
export class Arrivals {
  readonly #waiting: { readonly weight: number; readonly serve: () => void }[] = [];
  #isScheduled = false;
  /** The number of connections served in this turn. An HTTP/2 connection counts as `PER_TURN`. */
  #served = 0;

  /** Serves a connection in this turn, or in a later one. */
  add(isHttp2: boolean, serve: () => void): void {
    this.#waiting.push({ weight: isHttp2 ? PER_TURN : 1, serve });
    this.#serve();
  }

  #serve(): void {
    while (this.#served < PER_TURN) {
      const next = this.#waiting.shift();
      if (!next) return;
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
