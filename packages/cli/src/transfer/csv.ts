import { Buffer } from "node:buffer";
import { parse } from "csv-parse/sync";
import { stringify } from "csv-stringify/sync";
import { usageFailure } from "../failures.ts";
import { invisibleIn } from "../output/printable.ts";
import { BadRow, COLUMNS, columnOf, groupOf, isJsonColumn, type Row } from "./group-row.ts";
import { headerOf, REMARK } from "./header.ts";
import { isEmpty, isRemark } from "./jsonl.ts";
import { type Line, type LineReader, textOf } from "./lines.ts";
import {
  contentOf,
  type GroupRecord,
  type GroupSource,
  MAX_RECORD_BYTES,
  type ReadOptions,
  TOO_LONG,
} from "./records.ts";

/**
 * CSV by RFC 4180, in UTF-8. An empty cell is not set; a cell that is empty in quotes is an empty text, as in
 * PostgreSQL's COPY. `mapping` and `properties` are JSON.
 *
 * One quote too many would make one record of the rest of the file. So of a record that is not well-formed only the
 * first line is refused, and reading goes on with the second.
 */

/** The cells of a record; undefined: not set. */
type Cells = readonly (string | undefined)[];

/** The field of each column of a file; undefined for an unknown column. */
type Columns = readonly (string | undefined)[];

/** How many records are parsed at once: one by one takes ten times as long. */
const AT_ONCE = 100;

/** Reads groups from CSV. The first line that is not a remark names the columns. @throws Failure when it does not */
export async function readCsv(lines: LineReader, options: ReadOptions): Promise<GroupSource> {
  const firstLines: string[] = [];
  let header = {};
  let named = await lines.next();
  while (named && (isRemark(named) || isEmpty(named))) {
    if (firstLines.length === 0 && isRemark(named)) {
      const found = headerOf(remarkOf(named));
      if (found) firstLines.push(named.bytes.toString());
      header = found ?? {};
    }
    named = await lines.next();
  }
  if (!named) return { header, firstLines, records: noRecords() };
  const columns = columnsOf(named, options);
  firstLines.push(named.bytes.toString());
  return { header, firstLines, records: recordsOf(lines, columns) };
}

/** The lines of an export before its groups. @param header as JSON */
export function csvFirstLines(header: string, hasTokens: boolean): string {
  return `${REMARK}${header}\n${COLUMNS.filter((column) => column !== "token" || hasTokens).join(",")}\n`;
}

/** The lines of groups in an export. */
export function csvOf(rows: readonly Row[]): string {
  const cells = rows.map((row) =>
    Object.entries(row).map(([column, value]) =>
      value !== null && isJsonColumn(column) ? JSON.stringify(value) : (value ?? undefined),
    ),
  );
  return stringify(cells, { cast: { string: quotedWhereNeeded } });
}

/** Quotes values that would mean something else without quotes. Values with a comma or a quote are quoted anyway. */
function quotedWhereNeeded(value: string) {
  return value === "" || value.startsWith("#") || /[\r\n]/.test(value)
    ? { value, quoted: true, quoted_empty: true }
    : value;
}

async function* noRecords(): AsyncGenerator<GroupRecord> {}

function columnsOf({ bytes, number }: Line, { ignoreUnknown }: ReadOptions): Columns {
  const refuse = (problem: string, ...hints: readonly string[]) =>
    usageFailure(`the CSV's line ${number} ${problem}`, hints.join("; "));
  const text = textOf(bytes);
  if (text === undefined) throw refuse("is not UTF-8", "save the file as UTF-8");
  const hints = [...mistakesIn(text), RULE];
  const names = cellsOf(text)?.map((name) => name ?? "");
  if (!names) throw refuse(`is not CSV: ${shown(text)}`, ...hints);
  const columns = names.map((name) => columnOf(name.trim()));
  if (!columns.includes("provided_id")) throw refuse(`names no column provided_id: ${shown(text)}`, ...hints);
  const twice = columns.find((column, i) => column !== undefined && columns.indexOf(column) !== i);
  if (twice !== undefined) throw refuse(`names the column ${twice} twice`, "remove one of the two");
  const unknown = names.filter((_, i) => columns[i] === undefined);
  if (unknown.length > 0 && !ignoreUnknown)
    throw refuse(
      `names columns that groups do not have: ${unknown.map((name) => JSON.stringify(name)).join(", ")}`,
      ...mistakesIn(unknown.join(",")),
      "correct them, or leave them out by --ignore-unknown",
      RULE,
    );
  return columns;
}

const RULE = `it must name the columns, separated by commas: ${COLUMNS.join(",")}, of which provided_id is required`;

const OTHER_SEPARATORS = [
  [";", "semicolons"],
  ["\t", "tabs"],
] as const;

/** The likely mistakes in a line of column names. */
function mistakesIn(text: string): string[] {
  const mistakes = OTHER_SEPARATORS.filter(([separator]) => text.split(separator).length > text.split(",").length).map(
    ([, name]) => `its columns are separated by ${name}: save the file with commas`,
  );
  const invisible = invisibleIn(text);
  if (invisible.length > 0) mistakes.push(`it has invisible characters: ${invisible.join(", ")}`);
  return mistakes;
}

/** A line of column names, as it is shown. The line may hold a token if the file names no columns, so long texts are cut. */
function shown(text: string): string {
  return text.replace(/[^,;\t]{21,}/g, (long) => `${long.slice(0, 8)}…`).slice(0, 200);
}

/** Lines that may be one record. */
interface Candidate {
  readonly lines: readonly Line[];
  readonly isTooLong: boolean;
  /** Whether its quotes are closed. */
  readonly isClosed: boolean;
}

async function* recordsOf(lines: LineReader, columns: Columns): AsyncGenerator<GroupRecord> {
  for (;;) {
    const candidates: Candidate[] = [];
    while (candidates.length < AT_ONCE) {
      const candidate = await nextCandidate(lines);
      if (!candidate) break;
      candidates.push(candidate);
      if (candidate.isTooLong || !candidate.isClosed || candidate.lines.length > 1) break;
    }
    if (candidates.length === 0) return;
    const plain = candidates.filter(isPlain);
    const texts = plain.map(candidateText);
    const together = texts.every((text) => text !== undefined) ? rowsOf(texts.join("\n")) : undefined;
    const isTogether = together?.length === plain.length;
    for (const [i, candidate] of candidates.entries()) {
      const cells = isTogether && i < plain.length ? together[i] : undefined;
      yield recordOf(candidate, columns, cells, lines);
    }
  }
}

/** Whether a record is of one line. */
function isPlain({ lines, isTooLong, isClosed }: Candidate): boolean {
  return lines.length === 1 && !isTooLong && isClosed;
}

/** The next lines up to where all quotes are closed. Empty lines and remarks between records are passed over. */
async function nextCandidate(lines: LineReader): Promise<Candidate | undefined> {
  const taken: Line[] = [];
  let [quotes, bytes] = [0, 0];
  for (let line = await lines.next(); line; line = await lines.next()) {
    if (taken.length === 0 && (isEmpty(line) || isRemark(line))) continue;
    taken.push(line);
    bytes += line.bytes.length;
    if (line.isTooLong || bytes > MAX_RECORD_BYTES) return { lines: taken, isTooLong: true, isClosed: false };
    for (let at = line.bytes.indexOf(34); at !== -1; at = line.bytes.indexOf(34, at + 1)) quotes += 1;
    if (quotes % 2 === 0) return { lines: taken, isTooLong: false, isClosed: true };
  }
  return taken.length === 0 ? undefined : { lines: taken, isTooLong: false, isClosed: false };
}

/** @param known the cells, if they are already parsed */
function recordOf(candidate: Candidate, columns: Columns, known: Cells | undefined, lines: LineReader): GroupRecord {
  const { isTooLong, isClosed } = candidate;
  const [first] = candidate.lines as [Line];
  const last = candidate.lines.at(-1) as Line;
  const text = isClosed && !isTooLong ? candidateText(candidate) : undefined;
  const cells = known ?? (text === undefined ? undefined : cellsOf(text));
  if (!cells) {
    // The surplus quote is most likely in the first line.
    lines.unread(candidate.lines.slice(1));
    const problem = first.isTooLong
      ? TOO_LONG
      : textOf(first.bytes) === undefined
        ? "is not UTF-8"
        : "is not CSV: a quote is not closed, or stands within a cell that does not begin with one";
    return { line: first.number, end: first.end, raw: first.isTooLong ? undefined : first.bytes, content: { problem } };
  }
  const raw = rawOf(candidate);
  const content = contentOf(raw.length, () => groupOf(rowOf(cells, columns)));
  return { line: first.number, end: last.end, raw, content };
}

function rowOf(cells: Cells, columns: Columns): Row {
  if (cells.length !== columns.length) throw new BadRow(`has ${cells.length} cells for ${columns.length} columns`);
  const row: { [column: string]: unknown } = {};
  for (const [i, column] of columns.entries()) {
    const cell = cells[i];
    if (column === undefined || cell === undefined) continue;
    row[column] = isJsonColumn(column) ? jsonCell(column, cell) : cell;
  }
  return row;
}

function jsonCell(column: string, cell: string): unknown {
  try {
    return JSON.parse(cell);
  } catch {
    throw new BadRow(`${column}: is not JSON`);
  }
}

function rawOf({ lines }: Candidate): Buffer {
  if (lines.length === 1) return (lines[0] as Line).bytes;
  return Buffer.concat(
    lines.flatMap(({ bytes, ending }, i) => (i === lines.length - 1 ? [bytes] : [bytes, Buffer.from(ending)])),
  );
}

function candidateText(candidate: Candidate): string | undefined {
  return textOf(rawOf(candidate));
}

function cellsOf(text: string): Cells | undefined {
  const rows = rowsOf(text);
  return rows?.length === 1 ? rows[0] : undefined;
}

/** The records of a text; undefined when it is not CSV. */
function rowsOf(text: string): Cells[] | undefined {
  try {
    return parse(text, {
      cast: (value, { quoting }) => (value === "" && !quoting ? undefined : value),
      record_delimiter: ["\n"],
      relax_column_count: true,
    }) as Cells[];
  } catch {
    return undefined;
  }
}

function remarkOf({ bytes }: Line): unknown {
  try {
    return JSON.parse(bytes.subarray(REMARK.length).toString());
  } catch {
    return undefined;
  }
}
