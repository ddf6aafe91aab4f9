import { ALGORITHM } from "./rules.ts";
import { jwkOf, type SigningPair } from "./signing.ts";

/** The time for which clients may cache the published documents, in seconds. */
export const DOCUMENT_MAX_AGE_S = 600;

/** @param base the public URL of the service, without a slash at the end @param environment `NAME[/TAG]` */
export function issuerOf(base: string, environment: string): string {
  return `${base}/e/${environment}`;
}

export function jwksDocument(keys: readonly (Pick<SigningPair, "x" | "y"> & { readonly kid: string })[]) {
  return { keys: keys.map(({ kid, x, y }) => ({ ...jwkOf({ x, y }), kid, use: "sig", alg: ALGORITHM })) };
}

/**
 * Returns the OpenID Connect discovery document of an issuer. The issuer has no OAuth flow. Some clients refuse a
 * document that lists no response types, so the document lists `id_token`, like the document of Kubernetes.
 */
export function discoveryDocument(issuer: string) {
  return {
    issuer,
    jwks_uri: `${issuer}/.well-known/jwks.json`,
    id_token_signing_alg_values_supported: [ALGORITHM],
    response_types_supported: ["id_token"],
    subject_types_supported: ["public"],
    claims_supported: "iss aud sub tid gen jti iat exp vid origin properties ext".split(" "),
  };
}
