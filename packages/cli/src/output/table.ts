import truncatedWidth from "fast-string-truncated-width";
import { printable } from "./printable.ts";

/** A column of a table. */
export interface Column<T> {
  readonly name: string;
  /** The text of a cell; undefined shows as `-`. */
  readonly of: (value: T) => string | undefined;
  /** Whether the column is cut before others: names and other texts that people choose freely. Default: no. */
  readonly isFree?: boolean;
}

const GAP = "  ";
const ELLIPSIS = "…";
/** The least width of a column that is cut. */
const NARROWEST = 8;

/** Makes the lines of a table. The first rows decide on the widths, so that a list can be written page by page. */
export class Table<T> {
  readonly #columns: readonly Column<T>[];
  /** The width of the terminal; undefined: nothing is cut. */
  readonly #width: number | undefined;
  #widths: readonly number[] | undefined;

  constructor(columns: readonly Column<T>[], width: number | undefined) {
    this.#columns = columns;
    this.#width = width;
  }

  /** The lines of some rows; before the first ones comes the line with the names of the columns. */
  lines(rows: readonly T[]): string[] {
    const cells = rows.map((row) => this.#columns.map((column) => printable(column.of(row) || "-")));
    if (this.#widths) return cells.map((row) => this.#line(row));
    const all = [this.#columns.map(({ name }) => name), ...cells];
    this.#widths = this.#fit(this.#columns.map((_, i) => Math.max(...all.map((row) => widthOf(row[i] ?? "")))));
    return all.map((row) => this.#line(row));
  }

  #line(cells: readonly string[]): string {
    const last = cells.length - 1;
    const padded = cells.map((cell, i) => {
      const width = this.#widths?.[i] ?? 0;
      const text = this.#width === undefined ? cell : cut(cell, width);
      return i === last ? text : text + " ".repeat(Math.max(0, width - widthOf(text)));
    });
    return padded.join(GAP).trimEnd();
  }

  /** Takes from the widest free column first, then from the widest of all, until the line fits. */
  #fit(widths: number[]): number[] {
    if (this.#width === undefined) return widths;
    const gaps = GAP.length * (widths.length - 1);
    let excess = widths.reduce((sum, width) => sum + width, gaps) - this.#width;
    for (const isFree of [true, false]) {
      while (excess > 0) {
        const allowed = widths.map((width, i) => (!isFree || this.#columns[i]?.isFree ? width : 0));
        const widest = allowed.indexOf(Math.max(...allowed));
        if ((allowed[widest] ?? 0) <= NARROWEST) break;
        widths[widest] = (widths[widest] ?? 0) - 1;
        excess -= 1;
      }
    }
    return widths;
  }
}

/** How many cells of a terminal a printable text takes. */
export function widthOf(text: string): number {
  return truncatedWidth(text).width;
}

/** A printable text in so many cells of a terminal. */
export function cut(text: string, width: number): string {
  const { index, truncated } = truncatedWidth(text, { limit: width, ellipsis: ELLIPSIS });
  return truncated ? text.slice(0, index) + ELLIPSIS : text;
}
