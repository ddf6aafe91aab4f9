/**
 * Creates a request id. Uses `getRandomValues`, because `crypto.randomUUID` exists only on https: pages and on
 * localhost.
 */
export function newRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
