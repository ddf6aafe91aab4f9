import { TooFewReplicas } from "../../domain/errors.ts";
import type { StoreConnection } from "./connection.ts";

interface Waiter {
  /** How often the connection had been lost when the change was answered. */
  readonly losses: number;
  readonly leftMs: number;
  readonly resolve: () => void;
  readonly reject: (error: TooFewReplicas) => void;
}

/**
 * Waits for the replicas of one connection. Redis looks at no further command of a connection while a WAIT is under
 * way, so there is one at a time: it serves all changes that were answered in the turns before it, and those that are
 * answered meanwhile share the next.
 */
export class Replicas {
  readonly #connection: StoreConnection;
  readonly #count: number;
  readonly #longestMs: number;
  #waiting: Waiter[] = [];
  #isWaiting = false;

  /** @param longestMs how long one WAIT may hold up the changes behind it, in milliseconds */
  constructor(connection: StoreConnection, count: number, longestMs: number) {
    this.#connection = connection;
    this.#count = count;
    this.#longestMs = longestMs;
  }

  /**
   * Resolves when enough replicas have all changes that Redis answered before this call.
   *
   * @param leftMs how long the caller can wait, in milliseconds
   * @throws TooFewReplicas when they have not by then, or it cannot be known
   */
  confirm(leftMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ losses: this.#connection.losses(), leftMs, resolve, reject });
      if (this.#isWaiting) return;
      this.#isWaiting = true;
      setImmediate(() => this.#serve());
    });
  }

  async #serve(): Promise<void> {
    while (this.#waiting.length > 0) {
      const served = this.#waiting;
      this.#waiting = [];
      const longest = Math.max(...served.map(({ leftMs }) => leftMs));
      // WAIT takes 0 for no limit.
      const timeoutMs = Math.max(Math.ceil(Math.min(longest, this.#longestMs)), 1);
      let failure: TooFewReplicas | undefined;
      try {
        const confirmed = await this.#connection.redis.wait(this.#count, timeoutMs);
        if (confirmed < this.#count)
          failure = new TooFewReplicas(new Error(`${confirmed} of ${this.#count} confirmed`));
      } catch (cause) {
        failure = new TooFewReplicas(cause);
      }
      for (const { losses, resolve, reject } of served) {
        // A new connection may lead to another Redis, whose replicas tell nothing of this change.
        const lost =
          losses === this.#connection.losses() ? undefined : new TooFewReplicas(new Error("connection lost"));
        const reason = failure ?? lost;
        reason ? reject(reason) : resolve();
      }
    }
    this.#isWaiting = false;
  }
}
