import { apiTokenDigest } from "../domain/api-token.ts";
import { isIntactApiToken, looksLikeUserGroupToken } from "../domain/token.ts";
import type { Authenticated, Authenticator, Principal } from "./authenticator.ts";
import type { IssuedTokens } from "./issued-tokens.ts";

/** A credential of the settings, and whose it is. */
export interface StaticToken {
  readonly token: string;
  /** A function where the environment cannot be known yet. It rejects with StoreUnavailable until it can. */
  readonly principal: Principal | (() => Promise<Principal>);
}

/**
 * Authenticates API tokens: first those of the settings, then issued ones. Tokens are stored and compared as SHA-256
 * digests, so that the timing of a lookup reveals nothing about a token.
 */
export class ApiTokens implements Authenticator {
  readonly #static = new Map<string, Principal>();
  readonly #late = new Map<string, () => Promise<Principal>>();
  readonly #issued: IssuedTokens;

  constructor(tokens: Iterable<StaticToken>, issued: IssuedTokens) {
    for (const { token, principal } of tokens) {
      if (typeof principal === "function") this.#late.set(apiTokenDigest(token), principal);
      else this.#static.set(apiTokenDigest(token), principal);
    }
    this.#issued = issued;
  }

  /** Whose credential of the settings a text is; undefined when it is none. */
  ofSettings(token: string): Principal | undefined {
    return this.#static.get(apiTokenDigest(token));
  }

  authenticate(token: string): Authenticated | Promise<Authenticated> {
    if (looksLikeUserGroupToken(token)) return undefined;
    const digest = apiTokenDigest(token);
    const known = this.#static.get(digest) ?? this.#issued.cached(digest);
    if (known !== undefined) return known;
    const late = this.#late.get(digest);
    if (late !== undefined) return this.#learn(digest, late);
    // Only a well-formed token can be an issued one, so any other text costs the store nothing.
    return isIntactApiToken(token) ? this.#issued.look(digest) : undefined;
  }

  async #learn(digest: string, principalOf: () => Promise<Principal>): Promise<Principal> {
    const principal = await principalOf();
    this.#static.set(digest, principal);
    this.#late.delete(digest);
    return principal;
  }
}
