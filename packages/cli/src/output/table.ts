import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import truncatedWidth from "fast-string-truncated-width";
import { cellOf, fieldOf, labelOf } from "../../../operator/src/fields.ts";
import { printable } from "./printable.ts";

export interface Column<T> {
  readonly name: string;
  /** Returns the text of a cell. If the text is undefined or empty, the table shows `-`. */
  readonly of: (value: T) => string | undefined;
  /** Whether to shorten this column before other columns if a line is too wide for the terminal. Default: no. */
  readonly isFree?: boolean;
}

/** A column of a table of messages. A string is the name of a field. */
export type ColumnOf<S extends DescMessage = DescMessage> = string | Column<MessageShape<S>>;

/** Returns the columns for messages of a type. The heading of a field is the label of the field in capital letters. */
export function columnsOf<S extends DescMessage>(
  schema: S,
  columns: readonly ColumnOf<S>[],
): Column<MessageShape<S>>[] {
  return columns.map((column) => {
    if (typeof column !== "string") return column;
    const field = fieldOf(schema, column);
    return {
      name: labelOf(field).toUpperCase(),
      of: (message) => cellOf(schema, message, column),
      isFree: field.fieldKind !== "message" && !/(^|_)id$/.test(column),
    };
  });
}

const GAP = "  ";
const ELLIPSIS = "…";
const NARROWEST = 8;

/**
 * Returns a function that formats the rows of a page. The result for the first page begins with the heading. A column
 * is as wide as its widest cell so far, or narrower to fit the terminal.
 *
 * @param limit the width of the terminal. If undefined, no column is shortened
 */
export function tableOf<T>(columns: readonly Column<T>[], limit: number | undefined) {
  /** The width of the widest cell of each column so far. Undefined if no page has been formatted yet. */
  let widest: readonly number[] | undefined;

  /**
   * Makes a line fit into `most` terminal cells. Shortens the widest `isFree` column by one terminal cell at a time. If
   * this is not enough, shortens the widest of all columns in the same way.
   */
  function fit(widths: number[], most: number): void {
    let excess = widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1)) - most;
    for (const isFree of [true, false]) {
      while (excess > 0) {
        const allowed = widths.map((width, i) => (!isFree || columns[i]?.isFree ? width : 0));
        const at = allowed.indexOf(Math.max(...allowed));
        if ((allowed[at] ?? 0) <= NARROWEST) break;
        widths[at] = (widths[at] ?? 0) - 1;
        excess -= 1;
      }
    }
  }

  return (rows: readonly T[]): string[] => {
    const cells = rows.map((row) => columns.map((column) => printable(column.of(row) || "-")));
    if (!widest) cells.unshift(columns.map(({ name }) => name));
    widest = columns.map((_, i) => Math.max(widest?.[i] ?? 0, ...cells.map((row) => widthOf(row[i] ?? ""))));
    const widths = [...widest];
    if (limit !== undefined) fit(widths, limit);
    return cells.map((row) => line(row, widths));
  };
}

/** Returns the width of a printable text, in terminal cells. */
export function widthOf(text: string): number {
  return truncatedWidth(text).width;
}

function line(cells: readonly string[], widths: readonly number[]): string {
  const padded = cells.map((cell, i) => {
    const width = widths[i] ?? 0;
    const text = cut(cell, width);
    return text + " ".repeat(width - widthOf(text));
  });
  return padded.join(GAP).trimEnd();
}

/** Shortens a printable text to a width. The middle is cut, because long ids often differ only at their ends. */
export function cut(text: string, width: number): string {
  const whole = widthOf(text);
  if (whole <= width) return text;
  const end = text.slice(lengthWithin(text, whole - Math.floor((width - 1) / 2)));
  return text.slice(0, lengthWithin(text, width - 1 - widthOf(end))) + ELLIPSIS + end;
}

function lengthWithin(text: string, limit: number): number {
  return truncatedWidth(text, { limit }).index;
}
