/** A body or a response that may be unfinished. */
export interface Unfinished {
  /** The number of times that the entry was added in this turn and the previous turn. */
  turns: number;
  /** Charges the client for this entry, unless the entry has finished. */
  outliveTurn(): void;
}

/**
 * Contains the bodies and responses that were added in this turn of the event loop and in the previous turn. Each entry
 * is checked at the end of the turn that follows the turn in which it was added. If the entry is still unfinished, its
 * client is charged. Most entries finish before that. A request is added once for its body and once for its response.
 * If both are in the list, the request is checked only once.
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
