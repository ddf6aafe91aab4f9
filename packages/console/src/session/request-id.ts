/** A new id for a request. Browsers make UUIDs on pages of `https:` and of this machine alone, random bytes everywhere. */
export function newRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
