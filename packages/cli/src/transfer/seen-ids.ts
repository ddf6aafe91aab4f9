import { hash } from "node:crypto";

/**
 * A set of ids. Instead of each id, stores 66 bits of the SHA-256 of the id. An id may be long, and the string of an id
 * may keep a whole record in memory. If the set contains ten million ids, the probability of a collision is below one
 * in a million.
 */
export class SeenIds {
  readonly #digests = new Set<string>();

  get size(): number {
    return this.#digests.size;
  }

  add(id: string): boolean {
    const { size } = this.#digests;
    return this.#digests.add(digestOf(id)).size > size;
  }

  has(id: string): boolean {
    return this.#digests.has(digestOf(id));
  }
}

function digestOf(id: string): string {
  return hash("sha256", id, "base64").slice(0, 11);
}
