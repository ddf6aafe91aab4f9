/** A body or a response that is charged only if it outlives its turn of the event loop. */
export interface Unfinished {
  /** The number of times that it was added in this turn and the previous one. */
  turns: number;
  /** Charges it, unless it is finished. */
  outliveTurn(): void;
}

/**
 * The bodies and responses of this turn of the event loop and of the previous one. At the end of the next turn, unfinished
 * ones are charged. Nearly all are finished by then, so their clients need not be charged. A request is added for its body
 * and again for its response, and is checked when the response is due.
 */
export class Turn {
  #added: Unfinished[] = [];
  #before: Unfinished[] = [];
  readonly #end = () => {
    const ended = this.#before;
    this.#before = this.#added;
    this.#added = [];
    if (this.#before.length > 0) setImmediate(this.#end);
    for (const each of ended) if (--each.turns === 0) each.outliveTurn();
  };

  add(unfinished: Unfinished): void {
    unfinished.turns++;
    if (this.#added.push(unfinished) === 1 && this.#before.length === 0) setImmediate(this.#end);
  }
}
