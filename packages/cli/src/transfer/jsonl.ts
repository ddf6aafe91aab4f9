import { isObject } from "../../../operator/src/fields.ts";
import { parsedJson } from "../json.ts";
import { BadRow, columnOf, type Row } from "./group-row.ts";
import { isSkipped } from "./header.ts";
import { type Line, textOf } from "./lines.ts";
import { contentOf, type GroupRecord, type ReadOptions, TOO_LONG } from "./records.ts";

/** Reads groups from JSON Lines, which has one object per line. Skips blank lines and remarks (see `REMARK`). */
export async function* readJsonLines(
  first: Line | undefined,
  lines: AsyncIterator<Line, undefined>,
  options: ReadOptions,
): AsyncGenerator<GroupRecord> {
  for (let line = first; line; { value: line } = await lines.next()) {
    if (!isSkipped(line)) yield recordOf(line, options);
  }
}

function recordOf(line: Line, { ignoreUnknown }: ReadOptions): GroupRecord {
  const { number, bytes, isTooLong } = line;
  if (isTooLong) return { line: number, raw: undefined, problem: TOO_LONG };
  const content = contentOf(() => {
    const text = textOf(bytes);
    if (text === undefined) throw new BadRow("is not UTF-8");
    const value = parsedJson(text);
    if (value === undefined) throw new BadRow("is not JSON");
    return rowOf(value, ignoreUnknown);
  });
  return { line: number, raw: bytes, ...content };
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
