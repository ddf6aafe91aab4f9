/** Pseudorandom numbers from a seed (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A number from 0 to 1, 1 excluded. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from 0 to `limit`, `limit` excluded. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  /** True with a probability from 0 to 1. */
  chance(share: number): boolean {
    return this.next() < share;
  }

  /** A random element. @throws if there are none */
  pick<T>(choices: readonly T[]): T {
    if (choices.length === 0) throw new Error("there is nothing to pick from");
    return choices[this.below(choices.length)] as T;
  }

  /** Random bytes. */
  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.below(256)));
  }
}
