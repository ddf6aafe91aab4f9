import { Buffer } from "node:buffer";
import { isObject } from "../../../operator/src/fields.ts";
import { BadRow, columnOf, groupOf, type Row } from "./group-row.ts";
import { headerOf, REMARK } from "./header.ts";
import { type Line, type LineReader, textOf } from "./lines.ts";
import { contentOf, type GroupRecord, type Groups, type ReadOptions, TOO_LONG } from "./records.ts";

const REMARK_BYTES = Buffer.from(REMARK);

/** Reads groups from JSON Lines, one object per line. It skips empty lines and remarks. */
export async function readJsonLines(lines: LineReader, options: ReadOptions): Promise<Groups> {
  const first = await lines.next();
  const header = first && headerOf(parsed(first));
  if (first && !header) lines.unread([first]);
  return {
    header: header ?? {},
    firstLines: first && header ? [first.bytes.toString()] : [],
    records: recordsOf(lines, options),
  };
}

async function* recordsOf(lines: LineReader, options: ReadOptions): AsyncGenerator<GroupRecord> {
  for (let line = await lines.next(); line; line = await lines.next()) {
    if (isEmpty(line) || isRemark(line)) continue;
    yield recordOf(line, options);
  }
}

/** Whether a line is blank. */
export function isEmpty({ bytes, isTooLong }: Line): boolean {
  return !isTooLong && bytes.every((byte) => byte === 32 || byte === 9);
}

/** Whether a line is a remark. */
export function isRemark({ bytes }: Line): boolean {
  return bytes.subarray(0, REMARK_BYTES.length).equals(REMARK_BYTES);
}

function recordOf(line: Line, { ignoreUnknown }: ReadOptions): GroupRecord {
  const { number, bytes, isTooLong } = line;
  if (isTooLong) return { line: number, raw: undefined, content: { problem: TOO_LONG } };
  const content = contentOf(bytes.length, () => {
    const text = textOf(bytes);
    if (text === undefined) throw new BadRow("is not UTF-8");
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      // The message of the parser quotes the text, which may contain a token.
      throw new BadRow("is not JSON");
    }
    return groupOf(rowOf(value, ignoreUnknown));
  });
  return { line: number, raw: bytes, content };
}

function rowOf(value: unknown, ignoreUnknown: boolean): Row {
  if (!isObject(value)) throw new BadRow("is not a JSON object");
  const row: { [column: string]: unknown } = {};
  for (const [name, field] of Object.entries(value)) {
    const column = columnOf(name);
    if (column !== undefined) row[column] = field;
    else if (!ignoreUnknown) throw new BadRow(`has an unknown field ${JSON.stringify(name)}`);
  }
  return row;
}

function parsed({ bytes }: Line): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
