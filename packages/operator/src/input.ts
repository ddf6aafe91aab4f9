import type { DescField, JsonObject } from "@bufbuild/protobuf";
import { type Duration, durationFromMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { entriesOf, isObject, isTimeField, labelOf } from "./fields.ts";
import { parseDuration, parseWhen, timeText } from "./times.ts";

/** The error for an invalid text that the user entered. The message names the field or argument, and the fault. */
export class InvalidInput extends Error {
  /** The label of the form field with the fault. Undefined if the fault does not belong to a single field. */
  readonly field: string | undefined;

  constructor(message: string, field?: string) {
    super(message);
    this.field = field;
  }
}

/**
 * Formats a field of a group as a text that the user can edit. Formats a map as `KEY=VALUE` lines, and other objects as
 * JSON.
 */
export function formatField(field: DescField, value: unknown): string {
  if (isTimeField(field)) return timeText(value as Timestamp | undefined) ?? "";
  if (!isObject(value)) return (value as string | undefined) ?? "";
  const json = JSON.stringify(value, null, 2);
  if (field.fieldKind !== "map") return json;
  const lines = entriesOf(value as { [key: string]: string }).join("\n");
  // Use JSON if the lines would be parsed as another map. For example, the line of a key `a=b` would set the key `a`.
  return isFormOf(lines, field, value) ? lines : json;
}

function isFormOf(text: string, field: DescField, value: unknown): boolean {
  try {
    return JSON.stringify(parseField(field, text)) === JSON.stringify(value);
  } catch {
    return false;
  }
}

/**
 * Parses a text in the format of `formatField`, or JSON.
 *
 * @returns the value. If the text is empty, the value of a scalar field is an empty string, the value of a map is an
 *   empty map, and the value of any other field is undefined
 * @throws InvalidInput if the text is not valid. The message names the field, and the invalid line or value
 */
export function parseField(field: DescField, text: string): string | JsonObject | Timestamp | undefined {
  if (field.fieldKind === "scalar") return text;
  if (isTimeField(field)) return text.trim() === "" ? undefined : timeIn(`The field ${labelOf(field)}`, text, 1);
  const isMap = field.fieldKind === "map";
  if (text.trim() === "") return isMap ? {} : undefined;
  if (isMap && !/^\s*\{.*\}\s*$/s.test(text)) return parseLines(field.name, text);
  const value = parseObject(text, `The field ${field.name}`);
  const bad = isMap && Object.keys(value).find((key) => typeof value[key] !== "string");
  if (bad) throw new InvalidInput(`The value of ${bad} in the field ${field.name} is not a JSON string.`);
  return value;
}

function parseLines(name: string, text: string): { [key: string]: string } {
  const map = new Map<string, string>();
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const [key, value] = entryOf(line) ?? [];
    if (key === undefined || value === undefined)
      throw new InvalidInput(`Line ${i + 1} of the field ${name} does not have the form KEY=VALUE.`);
    if (map.has(key.trim()))
      throw new InvalidInput(`Line ${i + 1} of the field ${name} repeats the key ${key.trim()}.`);
    map.set(key.trim(), value.trim());
  }
  return Object.fromEntries(map);
}

/**
 * Parses a text with `parseWhen`.
 *
 * @param label the label of the form field or of the option
 * @throws InvalidInput with the label if `parseWhen` returns undefined
 */
export function timeIn(label: string, text: string, sign: 1 | -1): Timestamp {
  const time = parseWhen(text, sign);
  if (time) return time;
  const duration = `a duration such as 30d ${sign > 0 ? "from" : "before"} now`;
  const formats = `a time such as 2027-01-31T12:00:00Z, a calendar date such as 2027-01-31, or ${duration}`;
  throw new InvalidInput(`${label} must be ${formats}.`, label);
}

/**
 * Parses a text with `parseDuration`.
 *
 * @param label the label of the form field or of the option
 * @throws InvalidInput with the label if `parseDuration` returns undefined
 */
export function durationIn(label: string, text: string): Duration {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidInput(`${label} must be a duration, such as 0s, 5m, 1h or 30d.`, label);
  return durationFromMs(ms);
}

/** Splits `KEY=VALUE` at the first `=`. @returns undefined if the text contains no `=`, or no key before the `=` */
export function entryOf(text: string): [key: string, value: string] | undefined {
  const end = text.indexOf("=");
  return end < 1 ? undefined : [text.slice(0, end), text.slice(end + 1)];
}

/**
 * Parses a JSON object.
 *
 * @param what the name of the text in the error message
 * @throws InvalidInput if the text is not a JSON object. The message does not contain the text
 */
export function parseObject(text: string, what: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // Use only the position, because the rest of the parser's message quotes the text.
    const [position] = /line \d+ column \d+|position \d+/.exec((error as Error).message) ?? [];
    throw new InvalidInput(`${what} is not valid JSON${position ? `: see ${position}` : ""}.`);
  }
  if (!isObject(value)) throw new InvalidInput(`${what} is not a JSON object, such as {"plan":"gold"}.`);
  return value;
}

/** Quotes a word for a POSIX shell if necessary. */
export function quoted(word: string): string {
  return /^[\w./:@%+,=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
