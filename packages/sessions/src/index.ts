export { DOCUMENT_MAX_AGE_S, discoveryDocument, issuerOf, jwksDocument, type PublishedDocument } from "./documents.ts";
export { nextKeySet, PUBLISHED_MS, statesOf } from "./keys.ts";
export {
  isSession,
  MAX_SESSION_LENGTH,
  newKeyId,
  type SessionClaims,
  type SessionRefusal,
  SessionRefused,
} from "./session.ts";
export { importKey, newKeyPair, signSession } from "./signing.ts";
export { SessionVerifier } from "./verifier.ts";
