import { hash } from "node:crypto";
import { ALGORITHM } from "./rules.ts";
import type { PublicKey } from "./signing.ts";

/** How long published documents may be cached, in seconds. */
export const DOCUMENT_MAX_AGE_S = 600;

/** A document that is published. */
export interface PublishedDocument {
  readonly text: string;
  /** The etag of its text, with the quotes (RFC 9110, 8.8.3). */
  readonly etag: string;
}

/**
 * The issuer of an environment's sessions.
 *
 * @param base where the service is reached, without a slash at its end
 * @param environment its name and, behind a slash, its tag
 */
export function issuerOf(base: string, environment: string): string {
  return `${base}/e/${environment}`;
}

/** The keys by which sessions are verified (RFC 7517). */
export function jwksDocument(keys: readonly (PublicKey & { readonly kid: string })[]): PublishedDocument {
  const members = keys.map(({ kid, x, y }) => ({ kty: "EC", crv: "P-256", x, y, kid, use: "sig", alg: ALGORITHM }));
  return documentOf({ keys: members });
}

/**
 * The URL of an issuer's keys, as a document of OpenID Connect Discovery 1.0. The issuer offers no flow of OAuth. Some readers
 * refuse a document without response types; `id_token` is the one for issuers that only sign tokens, such as Kubernetes.
 */
export function discoveryDocument(issuer: string): PublishedDocument {
  return documentOf({
    issuer,
    jwks_uri: `${issuer}/.well-known/jwks.json`,
    id_token_signing_alg_values_supported: [ALGORITHM],
    response_types_supported: ["id_token"],
    subject_types_supported: ["public"],
    claims_supported: "iss aud sub tid gen jti iat exp vid origin properties ext".split(" "),
  });
}

function documentOf(value: object): PublishedDocument {
  const text = `${JSON.stringify(value)}\n`;
  return { text, etag: `"${hash("sha256", text, "base64url").slice(0, 22)}"` };
}
