/** Bounds how many calls are under way at once. */
export class CallLimit {
  readonly #max: number;
  #underWay = 0;

  /** @param max how many calls may be under way */
  constructor(max: number) {
    this.#max = max;
  }

  /** Whether there is no place. */
  get isFull(): boolean {
    return this.#underWay >= this.#max;
  }

  /** Takes a place for a call; false when there is none. */
  tryEnter(): boolean {
    if (this.isFull) return false;
    this.#underWay++;
    return true;
  }

  /** Gives the place of a call back. */
  leave(): void {
    this.#underWay--;
  }
}
