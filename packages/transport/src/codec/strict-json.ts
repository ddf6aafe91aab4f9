import { type DescField, type DescMessage, isEnumJson } from "@bufbuild/protobuf";
import { FieldError } from "@bufbuild/protobuf/reflect";
import { type Fields, fieldsLeadingTo } from "./fields.ts";

const CHECKS: ReadonlyMap<string, (text: string) => boolean> = new Map([
  // protobuf-es checks only the beginning of a duration.
  ["google.protobuf.Duration", (text) => /^-?[0-9]+(?:\.[0-9]{1,9})?s$/.test(text)],
  ["google.protobuf.Timestamp", isTimeOfDay],
]);

/**
 * Returns whether the day exists and the hour is below 24. Date.parse accepts the hour 24, and the day 31 in every
 * month.
 */
function isTimeOfDay(text: string): boolean {
  const [, date, day] = /^(\d{4}-\d{2}-(\d{2}))T(?!24)/.exec(text) ?? [];
  return new Date(`${date}T00:00:00Z`).getUTCDate() === Number(day);
}

const fieldsToCheck = fieldsLeadingTo(
  ({ enum: values, message }) =>
    // Do not search for the enum NullValue. Every Struct contains this enum, but the keys in the JSON of a Struct are
    // arbitrary texts, not field names.
    (values !== undefined && values.typeName !== "google.protobuf.NullValue") ||
    (message !== undefined && CHECKS.has(message.typeName)),
);

/**
 * Refuses invalid JSON that protobuf-es accepts. Examples: the duration `300s of grace`, the time
 * `2026-02-30T00:00:00Z`, and an unknown enum name. For an unknown enum name, protobuf-es uses the default value. Call
 * this function after protobuf-es, which refuses all other invalid JSON.
 *
 * @throws FieldError if the value of a field is invalid; Error if the whole message is an invalid duration or time. The
 * error has the same message as an error of protobuf-es
 */
export function requireStrictJson(desc: DescMessage, json: unknown): void {
  check(desc, json);
}

/** Returns whether `requireStrictJson` can refuse JSON of a type. */
export function hasLenientJson(desc: DescMessage): boolean {
  return CHECKS.has(desc.typeName) || fieldsToCheck(desc).length > 0;
}

/** @param holder the field that contains the message; undefined for the outermost message */
function check(desc: DescMessage, json: unknown, holder?: DescField): void {
  const isValid = CHECKS.get(desc.typeName);
  if (isValid) {
    if (typeof json !== "string" || isValid(json)) return;
    const text = `cannot decode message ${desc.typeName} from JSON`;
    throw holder ? new FieldError(holder, text) : new Error(text);
  }
  if (!isObject(json)) return;
  for (const field of fieldsToCheck(desc)) {
    // `jsonName` and `name` are often equal. The Set prevents a second check of the same value. With two checks at each
    // level, the time would be exponential in the depth.
    for (const name of new Set([field.jsonName, field.name]))
      if (Object.hasOwn(json, name)) checkField(field, json[name]);
  }
}

function checkField(field: DescField, json: unknown): void {
  const { message, fieldKind } = field;
  if (field.enum) {
    const values = isObject(json) ? Object.values(json) : [json];
    const unknown = values.find((value) => typeof value === "string" && !isEnumJson(field.enum, value));
    if (unknown !== undefined) throw new FieldError(field, `cannot decode ${field.enum} from JSON: "${unknown}"`);
  } else if (message && fieldKind === "message") check(message, json, field);
  else if (message && isObject(json)) for (const element of Object.values(json)) check(message, element, field);
}

function isObject(json: unknown): json is Fields {
  return typeof json === "object" && json !== null;
}
