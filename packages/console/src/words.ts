import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { InvalidInput } from "../../operator/src/input.ts";
import { parseWhen, whenText } from "../../operator/src/times.ts";

/** Formats a number with its noun, such as `1 user group` or `1,204 user groups`. */
export function countText(count: number | bigint, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${Number(count) === 1 ? "" : "s"}`;
}

/**
 * Parses the time in a field of a form.
 *
 * @param sign see `parseWhen`
 * @throws InvalidInput if the text is not a time. The error contains the name of the field
 */
export function timeIn(field: string, text: string, sign: 1 | -1): Timestamp {
  const time = parseWhen(text, sign);
  if (!time) throw new InvalidInput(`${field} must be ${whenText(sign)}.`, field);
  return time;
}
