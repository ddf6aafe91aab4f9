import { hash } from "node:crypto";
import type { JWK } from "jose";
import { setBounded } from "../domain/bounded.ts";
import { ViewerSessionExpired, ViewerSessionInvalid } from "../domain/errors.ts";
import {
  ALGORITHM,
  CLOCK_TOLERANCE_S,
  claimsOf,
  readSession,
  type SessionClaims,
  type UnverifiedSession,
} from "./rules.ts";
import { loadJose } from "./signing.ts";

interface Expected {
  readonly issuer: string;
  readonly keyOf: (kid: string) => Promise<JWK | undefined>;
}

interface Verified {
  readonly kid: string;
  readonly payload: SessionClaims;
}

/** The maximum number of cached sessions, and their maximum length in characters. The cache uses at most 20 MiB. */
const MAX_VERIFIED = 4096;
const MAX_CACHED_LENGTH = 2048;

/** The messages of `ViewerSessionInvalid`. */
export const FAULTS = {
  malformed: "this is not a complete viewer session of this service: it was cut or changed, or is another kind of JWT",
  otherEnvironment:
    "the viewer session belongs to another environment than the API token, or was created with another PUBLIC_URL",
  unknownKey: "the key of the viewer session is unknown in this environment, or was removed",
  signature: "the signature of the viewer session is invalid: the session was changed",
  tooEarly: "the viewer session was created in the future: the clocks of two machines differ by more than 5 seconds",
  otherAudience: "the viewer session has another audience than the request",
} as const;

const KEY_ID = /^[\w-]{22}$/;

/**
 * Verifies sessions. A page sends the same session many times, so `verify` checks the signature only once and caches
 * the result. Every call checks the issuer, the time, and whether the signing key still exists.
 */
export class SessionVerifier {
  readonly #verified = new Map<string, Verified>();

  get size(): number {
    return this.#verified.size;
  }

  /** @throws ViewerSessionInvalid, ViewerSessionExpired */
  async verify(session: string, { issuer, keyOf }: Expected): Promise<SessionClaims> {
    const digest = hash("sha256", session, "base64url");
    const known = this.#verified.get(digest);
    const { kid, payload } = known ?? partsOf(session);
    if (payload["iss"] !== issuer) throw new ViewerSessionInvalid(FAULTS.otherEnvironment);
    const key = await keyOf(kid);
    if (key === undefined) throw new ViewerSessionInvalid(FAULTS.unknownKey);
    if (!known) await verifySignature(session, key);
    const claims = known?.payload ?? claimsOf(payload as UnverifiedSession["payload"]);
    if (!claims) throw new ViewerSessionInvalid(FAULTS.malformed);
    // Check the time last, because `keyOf` may wait for the store.
    requireTime(claims);
    if (!known && session.length <= MAX_CACHED_LENGTH)
      setBounded(this.#verified, digest, { kid, payload: claims }, MAX_VERIFIED);
    return claims;
  }
}

function partsOf(session: string): UnverifiedSession {
  const read = readSession(session);
  if (!read || !KEY_ID.test(read.kid) || typeof read.payload["iss"] !== "string")
    throw new ViewerSessionInvalid(FAULTS.malformed);
  return read;
}

/** Checks `iat` and `exp`. A session must not outlast the grace period of its token, so `exp` has no tolerance. */
function requireTime({ iat, exp }: SessionClaims): void {
  const seconds = Date.now() / 1000;
  if (seconds >= exp) throw new ViewerSessionExpired();
  if (iat > seconds + CLOCK_TOLERANCE_S) throw new ViewerSessionInvalid(FAULTS.tooEarly);
}

async function verifySignature(session: string, key: JWK): Promise<void> {
  const { compactVerify, errors } = await loadJose();
  try {
    await compactVerify(session, key, { algorithms: [ALGORITHM] });
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) throw new ViewerSessionInvalid(FAULTS.signature);
    if (error instanceof errors.JOSEError) throw new ViewerSessionInvalid(FAULTS.malformed);
    throw error;
  }
}
