import { hash } from "node:crypto";

/**
 * A set of ids. To save memory, stores 66 bits of the SHA-256 of each id instead of the id. If the set contains ten
 * million ids, the probability of a collision is below one in a million.
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
