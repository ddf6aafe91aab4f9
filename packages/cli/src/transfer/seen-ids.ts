import { hash } from "node:crypto";

/**
 * A set of ids. It stores 66 bits of the SHA-256 of each id. An id may be long, and the string of an id may keep the
 * text of the whole record in memory. With ten million ids, two collide in one of a million runs.
 */
export class SeenIds {
  readonly #digests = new Set<string>();

  get size(): number {
    return this.#digests.size;
  }

  /** Adds an id. @returns whether it is new */
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
