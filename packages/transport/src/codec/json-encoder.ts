import { type DescEnum, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import {
  type Fields,
  holdsJsonObject,
  isPlainObject,
  isWellKnown,
  type Presence,
  presenceOf,
  presentValue,
} from "./fields.ts";

type ToText = (value: never) => string;

const SCALARS: { readonly [type in ScalarType]?: ToText } = {
  [ScalarType.STRING]: text,
  [ScalarType.BOOL]: boolean,
  [ScalarType.INT32]: number,
  [ScalarType.INT64]: bigint,
};

/**
 * Compiles an encoder that returns the same text as `toJsonString`. Returns undefined if the type has a field that the
 * encoder does not support. If the encoder throws, call `toJsonString`, which may support the message. The encoder
 * saves 20 % of the CPU of a Connect call with JSON.
 */
export function compileJsonEncoder(desc: DescMessage): ((message: Message) => string) | undefined {
  return compileMessage(desc, new Map()) as ((message: unknown) => string) | undefined;
}

function compileMessage(desc: DescMessage, known: Map<DescMessage, ToText>): ToText | undefined {
  if (desc.typeName === "google.protobuf.Timestamp") return timestamp;
  if (isWellKnown(desc)) return undefined;
  const ready = known.get(desc);
  if (ready) return ready;
  const members: { readonly key: string; readonly presence: Presence; readonly valueToText: ToText }[] = [];
  const { typeName } = desc;
  const toText: ToText = (message: Fields) => {
    if (message["$typeName"] !== typeName) throw new TypeError("the message is of another type");
    let text = "";
    for (const { key, presence, valueToText } of members) {
      const value = presentValue(message, presence);
      if (value !== undefined) text += key + valueToText(value as never);
    }
    // The text of each field begins with a comma.
    return `{${text.slice(1)}}`;
  };
  known.set(desc, toText);
  for (const field of desc.fields.toSorted((a, b) => a.number - b.number)) {
    const presence = presenceOf(field);
    const valueToText = compileField(field, known);
    if (!presence || !valueToText) return undefined;
    members.push({ key: `,${JSON.stringify(field.jsonName)}:`, presence, valueToText });
  }
  return toText;
}

function compileField(field: DescField, known: Map<DescMessage, ToText>): ToText | undefined {
  switch (field.fieldKind) {
    case "scalar":
      return field.longAsString ? undefined : SCALARS[field.scalar];
    case "enum":
      return compileEnum(field.enum);
    case "message":
      return holdsJsonObject(field) ? jsonObject : compileMessage(field.message, known);
    case "map":
      return field.mapKey === ScalarType.STRING && field.scalar === ScalarType.STRING ? textMap : undefined;
    default:
      return undefined;
  }
}

function compileEnum({ typeName, value: known }: DescEnum): ToText | undefined {
  // NullValue is null in JSON.
  if (typeName === "google.protobuf.NullValue") return undefined;
  return (value: number) => {
    const name = typeof value === "number" ? known[value]?.name : undefined;
    // Unknown enum values are written as numbers.
    return name === undefined ? number(value) : `"${name}"`;
  };
}

function boolean(value: boolean): string {
  if (typeof value !== "boolean") throw new TypeError("not a boolean");
  return value ? "true" : "false";
}

function bigint(value: bigint): string {
  if (typeof value !== "bigint") throw new TypeError("not a bigint");
  return `"${value}"`;
}

function text(value: string): string {
  if (typeof value !== "string") throw new TypeError("not a string");
  return JSON.stringify(value);
}

function number(value: number): string {
  if (!Number.isInteger(value)) throw new TypeError("not an integer");
  return String(value);
}

function textMap(map: Fields): string {
  if (!isPlainObject(map)) throw new TypeError("not a map");
  for (const key of Object.keys(map)) {
    if (typeof map[key] !== "string") throw new TypeError("not a string");
  }
  return JSON.stringify(map);
}

function jsonObject(object: Fields): string {
  if (!isPlainObject(object)) throw new TypeError("not a JSON object");
  requireJson(object);
  return JSON.stringify(object);
}

/** Throws if a value is not a JSON value. JSON.stringify would omit such a value, write null, or call `toJSON`. */
function requireJson(value: unknown): void {
  switch (typeof value) {
    case "string":
    case "boolean":
      return;
    case "number":
      if (Number.isFinite(value)) return;
      break;
    case "object":
      if (value === null) return;
      if (Array.isArray(value) || isPlainObject(value)) {
        for (const element of Array.isArray(value) ? value : Object.values(value)) requireJson(element);
        return;
      }
  }
  throw new TypeError("not a JSON value");
}

const MIN_MS = Date.parse("0001-01-01T00:00:00Z");
const MAX_MS = Date.parse("9999-12-31T23:59:59Z");

/** Formats a Timestamp as in RFC 3339, with zero or three fractional digits. */
function timestamp({ seconds, nanos }: { readonly seconds: bigint; readonly nanos: number }): string {
  if (typeof seconds !== "bigint") throw new TypeError("not a bigint");
  const ms = Number(seconds) * 1000 + nanos / 1e6;
  if (!(nanos >= 0 && nanos < 1e9) || nanos % 1e6 !== 0 || !(ms >= MIN_MS && ms <= MAX_MS))
    throw new RangeError("not a timestamp with whole milliseconds");
  const day = Math.floor(ms / DAY_MS);
  if (day !== lastDay) {
    lastDay = day;
    lastDate = new Date(day * DAY_MS).toISOString().slice(0, 11);
  }
  const inDay = ms - day * DAY_MS;
  const time = `${digits(inDay / 3_600_000)}:${digits((inDay / 60_000) % 60)}:${digits((inDay / 1000) % 60)}`;
  if (nanos === 0) return `"${lastDate}${time}Z"`;
  return `"${lastDate}${time}.${String(1000 + (inDay % 1000)).slice(1)}Z"`;
}

const DAY_MS = 86_400_000;
let lastDay = Number.NaN;
let lastDate = "";

function digits(value: number): string {
  const whole = Math.floor(value);
  return whole < 10 ? `0${whole}` : String(whole);
}
