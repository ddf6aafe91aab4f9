/** A body or a response that may be unfinished. */
export interface Unfinished {
  /**
   * The number of scheduled checks. Each call of `add` schedules one check. Only the last check can charge the client.
   */
  additions: number;
  /** Charges the client for this entry, unless the entry has finished. */
  chargeIfUnfinished(): void;
}

/**
 * Delays the charges for bodies and responses until the end of the next turn of the event loop. Most bodies and
 * responses have finished by then, and need no charge. A request is added for its body, and again for its response. If
 * it is added for its response before the check for its body, only the check for the response can charge the client.
 */
export class DelayedCharges {
  #added: Unfinished[] = [];
  #before: Unfinished[] = [];
  readonly #end = () => {
    const ended = this.#before;
    this.#before = this.#added;
    this.#added = [];
    if (this.#before.length > 0) setImmediate(this.#end);
    for (const each of ended) if (--each.additions === 0) each.chargeIfUnfinished();
  };

  add(unfinished: Unfinished): void {
    unfinished.additions++;
    if (this.#added.push(unfinished) === 1 && this.#before.length === 0) setImmediate(this.#end);
  }
}
