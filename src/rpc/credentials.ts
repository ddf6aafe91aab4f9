import { type HeaderRecord, headerValue } from "@user-group-service/transport";
import type { ApiTokens } from "../auth/api-tokens.ts";
import { isIntactToken } from "../domain/token.ts";
import { REDACTED, SESSION_IN_TEXT, TOKEN_IN_TEXT } from "../observability/log.ts";
import { isSession } from "../sessions/session.ts";

/**
 * Returns whether a string is a credential. The service refuses credentials as ids and names, because ids and names are
 * not secret.
 */
export type IsCredential = (text: string) => boolean;

/** Recognizes tokens of this service, viewer sessions, and the credentials in the current settings. */
export function credentialCheck(apiTokens: Pick<ApiTokens, "isOfSettings">): IsCredential {
  return (text) => isIntactToken(text) || isSession(text) || apiTokens.isOfSettings(text);
}

/** The headers that may carry the API token. The service uses the first header that is present. */
export const CREDENTIAL_HEADERS = ["authorization", "explo-authorization"] as const;

const SCHEME = /^(?:token|bearer) +([\x21-\x7e]+) *$/i;

/** Returns the token in `Token TOKEN` or `Bearer TOKEN`. Undefined if the value has another form. */
export function tokenFromHeader(value: string): string | undefined {
  return SCHEME.exec(value)?.[1];
}

/** Returns the value of the first header in `CREDENTIAL_HEADERS` that is present. Null if both are missing. */
export function credentialIn(headers: HeaderRecord): string | null {
  return headerValue(headers, CREDENTIAL_HEADERS[0]) ?? headerValue(headers, CREDENTIAL_HEADERS[1]);
}

/** Returns the API token of a request. Undefined if the header is missing or malformed. */
export function apiTokenIn(headers: HeaderRecord): string | undefined {
  return tokenFromHeader(credentialIn(headers) ?? "");
}

/**
 * Redacts credentials in `text`: tokens of this service, viewer sessions, and the API token that `headers` contains.
 */
export function withoutTokens(text: string, headers: HeaderRecord): string {
  const redacted = text.replace(TOKEN_IN_TEXT, REDACTED).replace(SESSION_IN_TEXT, REDACTED);
  for (const name of CREDENTIAL_HEADERS) {
    const token = tokenFromHeader(headerValue(headers, name) ?? "");
    if (token !== undefined && redacted.includes(token)) return redacted.replaceAll(token, REDACTED);
  }
  return redacted;
}
