import type { JWK } from "jose";
import { ALGORITHM, type SessionClaims, TYPE } from "./rules.ts";

/** A key pair on P-256: the coordinates of the public key, and the private key, in base64url. */
export type SigningPair = { readonly [member in "x" | "y" | "d"]: string };

/** Loads `jose` for the first session, because only sessions need `jose`. */
export function loadJose() {
  return import("jose");
}

export async function newKeyPair(): Promise<SigningPair> {
  const { exportJWK, generateKeyPair } = await loadJose();
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  const { x, y, d } = await exportJWK(privateKey);
  return { x, y, d } as SigningPair;
}

/** Returns a key as a JWK. Callers should reuse the JWK object, because `jose` imports each JWK object separately. */
export function jwkOf(key: Pick<SigningPair, "x" | "y"> & Partial<SigningPair>): JWK {
  return { kty: "EC", crv: "P-256", ...key };
}

/** @param key the id of the key, and the key including its private part */
export async function signSession(
  claims: SessionClaims,
  { kid, key }: { readonly kid: string; readonly key: JWK },
): Promise<string> {
  const { SignJWT } = await loadJose();
  return new SignJWT({ ...claims }).setProtectedHeader({ alg: ALGORITHM, typ: TYPE, kid }).sign(key);
}
