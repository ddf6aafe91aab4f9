import { Code, type ConnectError } from "@connectrpc/connect";
import type { Authenticated, Authenticator, Principal } from "../auth/authenticator.ts";
import { CREDENTIAL_HEADERS, tokenFromHeader } from "../auth/credentials.ts";
import { callError } from "./errors.ts";

/**
 * Authenticates the API token in the headers, at once when that need not wait. Throws ConnectError Unauthenticated, whose
 * message says what to do; rejects with it, or with the store's failure.
 */
export function authenticate(authenticator: Authenticator, header: Headers): Principal | Promise<Principal> {
  const found = authenticator.authenticate(presentedToken(header));
  return found instanceof Promise ? found.then(requireKnown) : requireKnown(found);
}

/** @throws ConnectError Unauthenticated */
function requireKnown(found: Authenticated): Principal {
  if (!found) throw unauthenticated("API_TOKEN_UNKNOWN", UNKNOWN_TOKEN);
  return found;
}

const UNKNOWN_TOKEN = "the API token is unknown, revoked or expired; check that it was copied whole";

const REDACTED = "[redacted]";

/** A text of the caller's without tokens of this service and without the API token in the headers, whatever its form. */
export function withoutTokens(text: string, header: Headers): string {
  const redacted = text.replace(/ug[tk]_[0-9A-Za-z]{8,}/g, REDACTED);
  for (const name of CREDENTIAL_HEADERS) {
    const token = tokenFromHeader(header.get(name) ?? "");
    if (token !== undefined && redacted.includes(token)) return redacted.replaceAll(token, REDACTED);
  }
  return redacted;
}

function presentedToken(header: Headers): string {
  for (const name of CREDENTIAL_HEADERS) {
    const value = header.get(name);
    if (value === null) continue;
    const token = tokenFromHeader(value);
    if (token === undefined) {
      throw unauthenticated("API_TOKEN_MALFORMED", "the Authorization header must be: Token API_TOKEN");
    }
    return token;
  }
  throw unauthenticated("API_TOKEN_MISSING", "the header is missing: Authorization: Token API_TOKEN");
}

function unauthenticated(reason: string, message: string): ConnectError {
  const error = callError(Code.Unauthenticated, message, { reason });
  error.metadata.set("www-authenticate", 'Token realm="user-group-service"');
  return error;
}
