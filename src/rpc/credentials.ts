import { Code, type ConnectError } from "@connectrpc/connect";
import { type Authenticated, type Authenticator, NOT_LOOKED_UP, type Principal } from "../auth/authenticator.ts";
import type { FailureLimits } from "../auth/caller-limits.ts";
import { CREDENTIAL_HEADERS, tokenFromHeader } from "../auth/credentials.ts";
import { clientKey, type Network, type Origin } from "../domain/client-address.ts";
import { REDACTED, TOKEN_IN_TEXT } from "../observability/log.ts";
import { callError } from "./errors.ts";
import { type CallerLimits, limitedError, notLookedUpError } from "./limits.ts";

/** What is known of a caller before it is authenticated. */
export interface Caller {
  readonly header: Headers;
  /** The address of its connection; empty when it is not known. Default: not known. */
  readonly peerAddress?: () => string;
}

/** How callers are authenticated. */
export interface Authentication {
  readonly authenticator: Authenticator;
  readonly limits: CallerLimits;
  /** Whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly Network[];
}

/**
 * Authenticates the API token in the headers, at once when that need not wait. Throws ConnectError Unauthenticated, whose
 * message says what to do, or ResourceExhausted when the caller's address has failed too often; rejects with these, or
 * with the store's failure.
 */
export function authenticate(authentication: Authentication, caller: Caller): Principal | Promise<Principal> {
  const { authenticator, limits } = authentication;
  const { failures } = limits;
  const attempt = new Attempt(authentication, caller);
  const token = presentedToken(caller.header);
  if (typeof token !== "string") throw attempt.denied(token);
  const found = authenticator.authenticate(token, failures && (() => attempt.mayLookUp(failures)));
  return found instanceof Promise ? attempt.settle(found) : attempt.requireKnown(found);
}

/** An attempt to authenticate a call. */
class Attempt {
  readonly #authentication: Authentication;
  readonly #caller: Caller;
  /** Who failures are counted for; not asked for where there is none. */
  #client: string | undefined;
  /** What counts the look-up that is under way. */
  #lookUpOf: FailureLimits | undefined;

  constructor(authentication: Authentication, caller: Caller) {
    this.#authentication = authentication;
    this.#caller = caller;
  }

  /** As `MayLookUp`. */
  mayLookUp(failures: FailureLimits): boolean | Promise<boolean> {
    const note = (may: boolean) => {
      if (may) this.#lookUpOf = failures;
      return may;
    };
    const may = failures.beginLookUp(this.#clientKey());
    return may instanceof Promise ? may.then(note) : note(may);
  }

  /** As `requireKnown`, for what has to be waited for. */
  async settle(found: Promise<Authenticated>): Promise<Principal> {
    try {
      return this.requireKnown(await found);
    } finally {
      // A failure has been counted by now: it takes the place of the look-up.
      this.#lookUpOf?.endLookUp(this.#clientKey());
    }
  }

  /** @throws ConnectError Unauthenticated, ResourceExhausted */
  requireKnown(found: Authenticated): Principal {
    if (found === undefined) throw this.denied(UNKNOWN);
    if (found === NOT_LOOKED_UP) throw this.#notLookedUp();
    return found;
  }

  /** The error for a caller without a valid API token: it is counted, and told of the limit once it has reached it. */
  denied({ reason, message }: Fault): ConnectError {
    const { failures, onLimited } = this.#authentication.limits;
    const limited = failures?.fail(this.#clientKey());
    if (limited) {
      onLimited("address");
      return limitedError("address", limited);
    }
    const error = callError(Code.Unauthenticated, message, { reason });
    error.metadata.set("www-authenticate", 'Token realm="user-group-service"');
    return error;
  }

  #notLookedUp(): ConnectError {
    const { failures, onLimited } = this.#authentication.limits;
    onLimited("address");
    // Without these limits every token is looked up.
    return notLookedUpError((failures as FailureLimits).notLookedUp());
  }

  #clientKey(): string {
    this.#client ??= clientKey(originOf(this.#caller), this.#authentication.trustedProxies);
    return this.#client;
  }
}

/** What is wrong with the credentials of a call. */
interface Fault {
  readonly reason: string;
  readonly message: string;
}

const MISSING: Fault = {
  reason: "API_TOKEN_MISSING",
  message: "the header is missing: Authorization: Token API_TOKEN",
};
const MALFORMED: Fault = {
  reason: "API_TOKEN_MALFORMED",
  message: "the Authorization header must be: Token API_TOKEN",
};
const UNKNOWN: Fault = {
  reason: "API_TOKEN_UNKNOWN",
  message: "the API token is unknown, revoked or expired; check that it was copied whole",
};

/** Redacts tokens of this service, and the API token of the headers in any form, from a text that a caller sent. */
export function withoutTokens(text: string, header: Headers): string {
  const redacted = text.replace(TOKEN_IN_TEXT, REDACTED);
  for (const name of CREDENTIAL_HEADERS) {
    const token = tokenFromHeader(header.get(name) ?? "");
    if (token !== undefined && redacted.includes(token)) return redacted.replaceAll(token, REDACTED);
  }
  return redacted;
}

function presentedToken(header: Headers): string | Fault {
  for (const name of CREDENTIAL_HEADERS) {
    const value = header.get(name);
    if (value !== null) return tokenFromHeader(value) ?? MALFORMED;
  }
  return MISSING;
}

/** Where a call comes from, as far as it is known. */
export function originOf({ header, peerAddress }: Caller): Origin {
  return { peer: peerAddress?.() ?? "", forwardedFor: header.get("x-forwarded-for") };
}
