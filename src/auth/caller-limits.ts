import { clientKey, type Network, type Origin } from "../domain/client-address.ts";
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

/** What failures of authentication are limited with. */
export interface FailureLimitsOptions {
  readonly limits: RateLimits;
  /** Whose `X-Forwarded-For` is believed. */
  readonly proxies: readonly Network[];
}

/**
 * Limits how often a client may fail to authenticate. A client is an address, which many callers may share: those with
 * an API token that this worker has seen to be good are not concerned. One that it has not seen yet is looked up at a
 * bounded rate, so that guesses cost Redis next to nothing and a good token is found out by trying again.
 */
export class FailureLimits {
  readonly #limits: RateLimits;
  readonly #proxies: readonly Network[];

  constructor({ limits, proxies }: FailureLimitsOptions) {
    this.#limits = limits;
    this.#proxies = proxies;
  }

  /** Whether an API token that this worker does not know may be looked up. */
  mayLookUp(origin: Origin): boolean {
    const key = clientKey(origin, this.#proxies);
    return !this.#limits.reached(key) || this.#limits.mayTry(key, LOOKUP_INTERVAL_MS);
  }

  /** Counts a failure; returns why the client is refused when it has failed too often. */
  fail(origin: Origin): Limited | undefined {
    return this.#limits.take(clientKey(origin, this.#proxies));
  }
}
