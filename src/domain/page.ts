export interface Page<T> {
  readonly items: readonly T[];
  /** The key of the next page. Undefined on the last page. */
  readonly next: string | undefined;
}

export interface PageRequest {
  /** The `next` of the previous page. `""` for the first page. */
  readonly after: string;
  /** The maximum number of items. A page may have fewer items, even if more pages follow. */
  readonly size: number;
}
