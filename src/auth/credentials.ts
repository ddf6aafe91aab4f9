const SCHEME = /^(?:token|bearer) +([\x21-\x7e]+) *$/i;

/** The headers that may carry the API token. The first one present is used. */
export const CREDENTIAL_HEADERS = ["authorization", "explo-authorization"] as const;

/**
 * Parses the API token of an `Authorization` header: `Token TOKEN` or `Bearer TOKEN`; undefined when the header has
 * neither form.
 */
export function tokenFromHeader(value: string): string | undefined {
  return SCHEME.exec(value)?.[1];
}
