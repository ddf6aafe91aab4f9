/** A part of a list that is in order of a key. */
export interface Page<T> {
  readonly items: readonly T[];
  /** The key of the next page; undefined on the last page. */
  readonly next: string | undefined;
}

/** Which part of a list to return. */
export interface PageRequest {
  /** The key of the page, as the page before it gave it; `""` for the first page. */
  readonly after: string;
  /** How many items it has at most. It may have fewer though more pages follow. */
  readonly size: number;
}
