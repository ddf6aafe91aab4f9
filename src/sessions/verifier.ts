import { hash } from "node:crypto";
import type { JWK } from "jose";
import { setBounded } from "../domain/bounded.ts";
import {
  ALGORITHM,
  CLOCK_TOLERANCE_S,
  claimsOf,
  readSession,
  type SessionClaims,
  type UnverifiedSession,
} from "./rules.ts";
import { SessionRefused } from "./session.ts";
import { loadJose } from "./signing.ts";

interface Expected {
  readonly issuer: string;
  readonly keyOf: (kid: string) => Promise<JWK | undefined>;
}

interface Verified {
  readonly kid: string;
  readonly payload: SessionClaims;
}

/** The maximum number of cached sessions, and the maximum length of a cached session. The cache uses at most 20 MiB. */
const MAX_VERIFIED = 4096;
const MAX_CACHED_LENGTH = 2048;

const KEY_ID = /^[\w-]{22}$/;

/**
 * Verifies the signature of a session once, and caches the result, because a page sends the same session many times.
 * Every call still checks the issuer, the time, and that the signing key exists.
 */
export class SessionVerifier {
  readonly #verified = new Map<string, Verified>();

  get size(): number {
    return this.#verified.size;
  }

  /**
   * @param now returns the time, in milliseconds since 1970. Called after `keyOf`, which may wait for the store
   * @throws SessionRefused
   */
  async verify(session: string, { issuer, keyOf }: Expected, now: () => number): Promise<SessionClaims> {
    const digest = hash("sha256", session, "base64url");
    const known = this.#verified.get(digest);
    const { kid, payload } = known ?? partsOf(session);
    if (payload["iss"] !== issuer) throw new SessionRefused("other-environment");
    const key = await keyOf(kid);
    if (key === undefined) throw new SessionRefused("unknown-key");
    if (!known) await verifySignature(session, key);
    const claims = known?.payload ?? claimsOf(payload as UnverifiedSession["payload"]);
    if (!claims) throw new SessionRefused("malformed");
    requireTime(claims, now());
    if (!known && session.length <= MAX_CACHED_LENGTH)
      setBounded(this.#verified, digest, { kid, payload: claims }, MAX_VERIFIED);
    return claims;
  }
}

function partsOf(session: string): UnverifiedSession {
  const read = readSession(session);
  if (!read || !KEY_ID.test(read.kid) || typeof read.payload["iss"] !== "string") throw new SessionRefused("malformed");
  return read;
}

/** Checks the time. A session must not outlast the grace period of its token, so `exp` has no tolerance. */
function requireTime({ iat, exp }: SessionClaims, now: number): void {
  const seconds = now / 1000;
  if (seconds >= exp) throw new SessionRefused("expired");
  if (iat > seconds + CLOCK_TOLERANCE_S) throw new SessionRefused("too-early");
}

async function verifySignature(session: string, key: JWK): Promise<void> {
  const { compactVerify, errors } = await loadJose();
  try {
    await compactVerify(session, key, { algorithms: [ALGORITHM] });
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) throw new SessionRefused("signature");
    if (error instanceof errors.JOSEError) throw new SessionRefused("malformed");
    throw error;
  }
}
