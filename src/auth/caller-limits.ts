import { environmentPath } from "../domain/environment.ts";
import type { Limited } from "../domain/rate-limit.ts";
import type { Principal } from "./authenticator.ts";
import type { RateLimits } from "./rate-limits.ts";

/** Limits how often the bearer of an API token may call. */
export class TokenLimits {
  readonly #limits: RateLimits;

  constructor(limits: RateLimits) {
    this.#limits = limits;
  }

  /**
   * Counts a call of an API token; returns why it is refused. Root is not limited: whoever repairs something must not
   * have to wait.
   */
  take({ id, environment }: Principal): Limited | undefined {
    return environment && this.#limits.take(`${environmentPath(environment)}/${id}`);
  }
}

/** How often an unknown API token is looked up for a client that has failed too often, in milliseconds. */
const LOOKUP_INTERVAL_MS = 100;

/** How long an API token waits until others have been looked up, in milliseconds; the store's timeout may add to it. */
const PATIENCE_MS = 1000;

/** When to try an API token again that was not looked up, in milliseconds. */
const RETRY_MS = 1000;

/** The look-ups of a client. */
interface LookUps {
  /** At least one. */
  underWay: number;
  /** In the order in which they came. */
  readonly waiting: Waiting[];
}

/** A look-up that waits for others to end. */
interface Waiting {
  /** By `performance.now()`. */
  readonly since: number;
  readonly decide: (mayBegin: boolean) => void;
}

/**
 * Limits how often a client may fail to authenticate. A client is an address, which many callers may share: those with
 * an API token that this worker has seen to be good are not concerned. One that it has not seen yet is looked up at a
 * bounded rate, so that guesses cost Redis next to nothing and a good token is found out by trying again.
 *
 * What a look-up finds is not known until it ends, so those under way count as failures: guesses that are sent at once are
 * no more than the limit either. But a good token is not refused for others that may be good as well: it waits for them.
 */
export class FailureLimits {
  readonly #limits: RateLimits;
  /** Of clients that have any under way: no more than there are calls. */
  readonly #lookUps = new Map<string, LookUps>();

  constructor(limits: RateLimits) {
    this.#limits = limits;
  }

  /**
   * Whether an API token that this worker does not know may be looked up for a client. After yes, `endLookUp` must follow,
   * once a failure has been counted.
   */
  beginLookUp(client: string): boolean | Promise<boolean> {
    const lookUps = this.#lookUps.get(client);
    const mayBegin = this.#mayBegin(client, lookUps?.underWay ?? 0);
    if (mayBegin === true) this.#begin(client);
    if (mayBegin !== undefined) return mayBegin;
    return new Promise((decide) => lookUps?.waiting.push({ since: performance.now(), decide }));
  }

  /** Ends a look-up, whatever came of it, and lets others begin that wait. */
  endLookUp(client: string): void {
    const lookUps = this.#lookUps.get(client);
    if (!lookUps) return;
    lookUps.underWay--;
    const now = performance.now();
    for (let first = lookUps.waiting[0]; first !== undefined; first = lookUps.waiting[0]) {
      const mayBegin = now - first.since < PATIENCE_MS ? this.#mayBegin(client, lookUps.underWay) : false;
      if (mayBegin === undefined) break;
      lookUps.waiting.shift();
      if (mayBegin) lookUps.underWay++;
      first.decide(mayBegin);
    }
    if (lookUps.underWay === 0) this.#lookUps.delete(client);
  }

  /** Counts a failure of a client; returns why it is refused when it has failed too often. */
  fail(client: string): Limited | undefined {
    return this.#limits.take(client);
  }

  /** Why a call is refused whose API token was not looked up. It counts as no failure, for the token may be good. */
  notLookedUp(): Limited {
    return { limit: this.#limits.limit, retryAfterMs: RETRY_MS };
  }

  /** Undefined: that depends on those under way, of which there is one at least. */
  #mayBegin(client: string, underWay: number): boolean | undefined {
    if (this.#limits.reached(client)) return this.#limits.mayTry(client, LOOKUP_INTERVAL_MS);
    return this.#limits.reached(client, underWay) ? undefined : true;
  }

  #begin(client: string): void {
    const lookUps = this.#lookUps.get(client);
    if (lookUps) lookUps.underWay++;
    else this.#lookUps.set(client, { underWay: 1, waiting: [] });
  }
}
