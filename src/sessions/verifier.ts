import { hash } from "node:crypto";
import type { CryptoKey } from "jose";
import { ALGORITHM, type SessionClaims } from "./rules.ts";
import { claimsOf, requireTime, SessionRefused, unverified } from "./session.ts";
import { loadJose } from "./signing.ts";

interface Expected {
  readonly issuer: string;
  /** Returns the key of the issuer with an id. Undefined if the issuer has no such key. */
  readonly keyOf: (kid: string) => Promise<CryptoKey> | undefined;
}

interface Verified {
  readonly kid: string;
  readonly claims: SessionClaims;
  readonly bytes: number;
}

/** Approximate memory of an entry without its claims, in bytes. */
const ENTRY_BYTES = 600;

/**
 * Verifies sessions. Each signature is verified once and cached by the digest of the session, because a page sends the same
 * session many times. Time and key are checked each time.
 */
export class SessionVerifier {
  readonly #maxBytes: number;
  readonly #verified = new Map<string, Verified>();
  #bytes = 0;

  /** @param maxBytes approximate maximum memory of the cache, in bytes */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Number of cached sessions. */
  get size(): number {
    return this.#verified.size;
  }

  /**
   * Returns the claims of a session.
   *
   * @param now in milliseconds since 1970
   * @throws SessionRefused
   */
  async verify(session: string, expected: Expected, now: number): Promise<SessionClaims> {
    const digest = hash("sha256", session, "base64url");
    const known = this.#verified.get(digest);
    if (known?.claims.iss === expected.issuer && expected.keyOf(known.kid) !== undefined) {
      requireTime(known.claims, now);
      return known.claims;
    }
    const { kid, payload } = unverified(session);
    if (payload["iss"] !== expected.issuer) throw new SessionRefused("other-environment");
    const key = expected.keyOf(kid);
    if (key === undefined) throw new SessionRefused("unknown-key", kid);
    await verifySignature(session, await key);
    const claims = claimsOf(payload);
    requireTime(claims, now);
    this.#remember(digest, { kid, claims, bytes: ENTRY_BYTES + 2 * session.length }, now);
    return claims;
  }

  #remember(digest: string, entry: Verified, now: number): void {
    this.#forget(digest);
    this.#verified.set(digest, entry);
    this.#bytes += entry.bytes;
    // The first entries are the oldest. Remove expired ones even if the cache is not full.
    for (const [first, { claims }] of this.#verified) {
      if (this.#bytes <= this.#maxBytes && claims.exp > now / 1000) break;
      this.#forget(first);
    }
  }

  #forget(digest: string): void {
    const entry = this.#verified.get(digest);
    if (!entry) return;
    this.#bytes -= entry.bytes;
    this.#verified.delete(digest);
  }
}

/** @throws SessionRefused */
async function verifySignature(session: string, key: CryptoKey): Promise<void> {
  const { compactVerify, errors } = await loadJose();
  try {
    await compactVerify(session, key, { algorithms: [ALGORITHM] });
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) throw new SessionRefused("signature");
    if (error instanceof errors.JOSEError) throw new SessionRefused("malformed");
    throw error;
  }
}
