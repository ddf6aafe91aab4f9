export { DOCUMENT_MAX_AGE_S, discoveryDocument, issuerOf, jwksDocument, type PublishedDocument } from "./documents.ts";
export { nextKeySet, PUBLISHED_MS, statesOf } from "./keys.ts";
export { MAX_SESSION_LENGTH, type SessionClaims } from "./rules.ts";
export { isSession, newKeyId, type SessionRefusal, SessionRefused } from "./session.ts";
export { importKey, newKeyPair, signSession } from "./signing.ts";
export { SessionVerifier } from "./verifier.ts";
