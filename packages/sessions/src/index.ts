export { DOCUMENT_MAX_AGE_S, discoveryDocument, issuerOf, jwksDocument, type PublishedDocument } from "./documents.ts";
export {
  type KeySetChange,
  type KeyState,
  type KeyTimes,
  LIFETIME_MS,
  nextKeySet,
  PUBLISHED_MS,
  statesOf,
} from "./keys.ts";
export {
  isSession,
  MAX_SESSION_LENGTH,
  newKeyId,
  type SessionClaims,
  type SessionRefusal,
  SessionRefused,
} from "./session.ts";
export { importKey, newKeyPair, type PublicKey, type SigningPair, signSession } from "./signing.ts";
export { SessionVerifier } from "./verifier.ts";
