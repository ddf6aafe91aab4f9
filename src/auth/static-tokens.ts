import { hash } from "node:crypto";
import { looksLikeUserGroupToken } from "../domain/token.ts";
import type { Authenticator, Principal } from "./authenticator.ts";

/**
 * Authenticates the API tokens of the settings. Tokens are stored and compared as SHA-256 digests, so that the timing
 * of a lookup reveals nothing about a token.
 */
export class StaticTokens implements Authenticator {
  readonly #principals = new Map<string, Principal>();

  constructor(tokens: Iterable<{ readonly token: string; readonly principal: Principal }>) {
    for (const { token, principal } of tokens) this.#principals.set(sha256(token), principal);
  }

  async authenticate(token: string): Promise<Principal | undefined> {
    if (looksLikeUserGroupToken(token)) return undefined;
    return this.#principals.get(sha256(token));
  }
}

function sha256(token: string): string {
  return hash("sha256", token, "hex");
}
