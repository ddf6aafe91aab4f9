/** Creates a request id. `crypto.randomUUID` exists only on https: and localhost pages, `getRandomValues` on all pages. */
export function newRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
