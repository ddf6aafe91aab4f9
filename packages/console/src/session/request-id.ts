/** Creates a random request id. Does not use `crypto.randomUUID`, which exists only on https: pages and localhost. */
export function newRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
