/** A body or a response that is charged only if it is unfinished after its turn of the event loop. */
export interface Unfinished {
  /** The number of times that this entry was added in this turn and the previous turn. */
  turns: number;
  /** Charges the client for this entry, unless the body or response is finished. */
  outliveTurn(): void;
}

/**
 * The bodies and responses that were added in this turn of the event loop and in the previous one. If an entry is unfinished at
 * the end of the next turn, the list charges it. Nearly all entries finish before that. A request is added for its body and
 * again for its response. If both entries are in the list, the request is checked only for the response.
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
