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

/*
 * CSV by RFC 4180, in UTF-8. An empty cell is an unset field; a quoted empty cell is an empty text, as in PostgreSQL's COPY.
 * Fields that are objects are JSON.
 *
 * A surplus quote would turn the rest of the file into one record. So only the first line of a malformed record is
 * rejected, and reading continues with its second line.
 */

/** The cells of a record. Undefined: unset. */
type Cells = readonly (string | undefined)[];

/** The columns of a file. Undefined: unknown. */
type Columns = readonly (string | undefined)[];

/** Records per call of the parser. One by one would take ten times as long. */
const AT_ONCE = 100;

/** Reads groups from CSV. The first line that is not a remark names the columns. @throws Failure if it does not */
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

/** The first lines of an export. @param header as JSON */
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

/** Quotes values that mean something else without quotes. The library quotes values with a comma or a quote. */
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
  if (!columns.includes("provided_id")) throw refuse(`has no column provided_id: ${shown(text)}`, ...hints);
  const twice = columns.find((column, i) => column !== undefined && columns.indexOf(column) !== i);
  if (twice !== undefined) throw refuse(`has the column ${twice} twice`, "remove one of them");
  const unknown = names.filter((_, i) => columns[i] === undefined);
  if (unknown.length > 0 && !ignoreUnknown)
    throw refuse(
      `has unknown columns: ${unknown.map((name) => JSON.stringify(name)).join(", ")}`,
      ...mistakesIn(unknown.join(",")),
      "correct them, or give --ignore-unknown",
      RULE,
    );
  return columns;
}

const RULE = `it must name the columns, separated by commas: ${COLUMNS.join(",")}; provided_id is required`;

const OTHER_SEPARATORS = [
  [";", "semicolons"],
  ["\t", "tabs"],
] as const;

/** Likely mistakes in the line with the columns. */
function mistakesIn(text: string): string[] {
  const mistakes = OTHER_SEPARATORS.filter(([separator]) => text.split(separator).length > text.split(",").length).map(
    ([, name]) => `${name} separate its columns: save the file with commas`,
  );
  const invisible = invisibleIn(text);
  if (invisible.length > 0) mistakes.push(`it contains invisible characters: ${invisible.join(", ")}`);
  return mistakes;
}

/** Formats the line with the columns. It shortens long texts: without columns, the line may contain a token. */
function shown(text: string): string {
  return text.replace(/[^,;\t]{21,}/g, (long) => `${long.slice(0, 8)}…`).slice(0, 200);
}

/** Lines that may be one record. */
interface Candidate {
  readonly lines: readonly Line[];
  readonly isTooLong: boolean;
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

/** Whether a record is one well-formed line. */
function isPlain({ lines, isTooLong, isClosed }: Candidate): boolean {
  return lines.length === 1 && !isTooLong && isClosed;
}

/** Reads lines until all quotes are closed. It skips empty lines and remarks between records. */
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

/** @param known the cells, if already parsed */
function recordOf(candidate: Candidate, columns: Columns, known: Cells | undefined, lines: LineReader): GroupRecord {
  const { isTooLong, isClosed } = candidate;
  const [first] = candidate.lines as [Line];
  const last = candidate.lines.at(-1) as Line;
  const text = isClosed && !isTooLong ? candidateText(candidate) : undefined;
  const cells = known ?? (text === undefined ? undefined : cellsOf(text));
  if (!cells) {
    // The first line most likely has the surplus quote.
    lines.unread(candidate.lines.slice(1));
    const problem = first.isTooLong
      ? TOO_LONG
      : textOf(first.bytes) === undefined
        ? "is not UTF-8"
        : "is not CSV: a quote is not closed, or is inside of a cell that does not start with one";
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

/** Parses records. @returns undefined if the text is not CSV */
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
