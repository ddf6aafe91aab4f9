const SCHEME = /^(?:token|bearer) +([\x21-\x7e]+) *$/i;

/** Where the API token of a call may ride; the first that is there counts. */
export const CREDENTIAL_HEADERS = ["authorization", "explo-authorization"] as const;

/**
 * The API token of an `Authorization` header: `Token TOKEN`, or `Bearer TOKEN`;
 * undefined when it is of neither form.
 */
export function tokenFromHeader(value: string): string | undefined {
  return SCHEME.exec(value)?.[1];
}
