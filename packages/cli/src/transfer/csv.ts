import { Buffer } from "node:buffer";
import { parse } from "csv-parse/sync";
import { stringify } from "csv-stringify/sync";
import { usageFailure } from "../failures.ts";
import { parsedJson } from "../json.ts";
import { BadRow, COLUMNS, columnOf, JSON_COLUMNS, type Row } from "./group-row.ts";
import { isSkipped, REMARK } from "./header.ts";
import { type Line, textOf } from "./lines.ts";
import { contentOf, type GroupRecord, MAX_RECORD_BYTES, type ReadOptions, TOO_LONG } from "./records.ts";

/*
 * Files contain CSV according to RFC 4180, in UTF-8. An empty cell is an unset field. A quoted empty cell is an empty
 * text, as in PostgreSQL's COPY. If a field is an object, its cell contains JSON.
 *
 * One surplus quote could turn the rest of the file into one malformed record. For this reason, `readCsv` rejects only
 * the first line of a malformed record, and continues with the second line of this record.
 */

/** A cell is undefined if the field is not set. */
type Cells = readonly (string | undefined)[];

/** The columns in the order of the file. A column is undefined if it is unknown. */
type Columns = readonly (string | undefined)[];

/** Reads groups from the lines that follow the heading of a CSV file. */
export async function* readCsv(lines: AsyncIterator<Line, undefined>, columns: Columns): AsyncGenerator<GroupRecord> {
  const left: Line[] = [];
  const next = async () => left.shift() ?? (await lines.next()).value;
  for (;;) {
    const taken = await nextRecord(next);
    const [first] = taken;
    if (!first) return;
    const raw = rawOf(taken);
    const cells = first.isTooLong || raw.length > MAX_RECORD_BYTES ? undefined : cellsOf(textOf(raw));
    const { number: line, isTooLong } = first;
    if (cells) {
      yield { line, raw, ...contentOf(() => rowOf(cells, columns)) };
    } else {
      // An unclosed quote is most likely in the first line. Read the other lines again as records.
      left.unshift(...taken.slice(1));
      const problem = isTooLong ? TOO_LONG : textOf(first.bytes) === undefined ? "is not UTF-8" : NOT_CSV;
      yield { line, raw: isTooLong ? undefined : first.bytes, problem };
    }
  }
}

/** Returns the first lines of an export. @param header the header as JSON */
export function csvFirstLines(header: string, hasTokens: boolean): string {
  return `${REMARK}${header}\n${COLUMNS.filter((column) => column !== "token" || hasTokens).join(",")}\n`;
}

export function csvOf(rows: readonly Row[]): string {
  const cells = rows.map((row) =>
    Object.entries(row).map(([column, value]) =>
      value !== null && JSON_COLUMNS.has(column) ? JSON.stringify(value) : (value ?? undefined),
    ),
  );
  // Without quotes, an import would read an empty text as an unset field, and could read a text that starts with `#` as
  // a remark.
  return stringify(cells, { quoted_match: /^$|^#/ });
}

/** Parses the heading: the line with the names of the columns. @throws Failure if the line is not valid */
export function columnsOf({ bytes, number }: Line, { ignoreUnknown }: ReadOptions): Columns {
  const refuse = (problem: string, hint: string) => usageFailure(`line ${number} of the CSV input ${problem}`, hint);
  const text = textOf(bytes);
  if (text === undefined) throw refuse("is not UTF-8", "save the file as UTF-8");
  const names = cellsOf(text)?.map((name) => name ?? "");
  if (!names) throw refuse(`is not CSV: ${shown(text)}`, RULE);
  const columns = names.map((name) => columnOf(name.trim()));
  if (!columns.includes("provided_id")) throw refuse(`has no column provided_id: ${shown(text)}`, RULE);
  const twice = columns.find((column, i) => column !== undefined && columns.indexOf(column) !== i);
  if (twice !== undefined) throw refuse(`has the column ${twice} twice`, "remove one of these columns");
  const unknown = names.filter((_, i) => columns[i] === undefined);
  if (unknown.length > 0 && !ignoreUnknown)
    throw refuse(
      `has unknown columns: ${unknown.map((name) => JSON.stringify(name)).join(", ")}`,
      `correct these names, or give --ignore-unknown; ${RULE}`,
    );
  return columns;
}

const RULE = `this line must name the columns, separated by commas: ${COLUMNS.join(",")}; provided_id is required`;

/**
 * Shortens the texts of a heading for a message. If the file has no heading, the first line is a group, and the message
 * must not show the token of this group.
 */
function shown(text: string): string {
  return text.replace(/[^,;\t]{21,}/g, (long) => `${long.slice(0, 8)}…`).slice(0, 200);
}

const NOT_CSV = "is not CSV: a quote is not closed, or an unquoted cell contains a quote";

/** Reads the lines of the next record, until all quotes are closed. First skips blank lines and remarks (`REMARK`). */
async function nextRecord(next: () => Promise<Line | undefined>): Promise<readonly Line[]> {
  const taken: Line[] = [];
  let [quotes, bytes] = [0, 0];
  for (let line = await next(); line; line = await next()) {
    if (taken.length === 0 && isSkipped(line)) continue;
    taken.push(line);
    bytes += line.bytes.length;
    for (let at = line.bytes.indexOf(34); at !== -1; at = line.bytes.indexOf(34, at + 1)) quotes += 1;
    if (quotes % 2 === 0 || line.isTooLong || bytes > MAX_RECORD_BYTES) break;
  }
  return taken;
}

function rowOf(cells: Cells, columns: Columns): Row {
  if (cells.length !== columns.length) throw new BadRow(`has ${cells.length} cells for ${columns.length} columns`);
  const row: { [column: string]: unknown } = {};
  for (const [i, column] of columns.entries()) {
    const cell = cells[i];
    if (column === undefined || cell === undefined) continue;
    row[column] = JSON_COLUMNS.has(column) ? jsonCell(column, cell) : cell;
  }
  return row;
}

function jsonCell(column: string, cell: string): unknown {
  const value = parsedJson(cell);
  if (value === undefined) throw new BadRow(`${column}: is not JSON`);
  return value;
}

function rawOf(lines: readonly Line[]): Buffer {
  if (lines.length === 1) return (lines[0] as Line).bytes;
  return Buffer.concat(
    lines.flatMap(({ bytes, ending }, i) => (i === lines.length - 1 ? [bytes] : [bytes, Buffer.from(ending)])),
  );
}

function cellsOf(text: string | undefined): Cells | undefined {
  if (text === undefined) return undefined;
  try {
    const [cells] = parse(text, {
      cast: (value, { quoting }) => (value === "" && !quoting ? undefined : value),
      record_delimiter: ["\n"],
      relax_column_count: true,
    }) as Cells[];
    return cells;
  } catch {
    return undefined;
  }
}
