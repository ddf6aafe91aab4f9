import { type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { type Fields, holdsJsonObject, isPlainObject, type Presence, presenceOf, presentValue } from "./fields.ts";

interface MessagePlan {
  readonly typeName: string;
  readonly fields: FieldPlan[];
}

interface FieldPlan extends Writer {
  readonly presence: Presence;
}

interface Writer {
  readonly write: (value: never, tag: number, of: never) => void;
  readonly tag: number;
  /** The plan of the nested message, or the writer of the list elements. */
  readonly of?: MessagePlan | Writer;
}

/** Encodes a message. @param headroom the number of uninitialized bytes before the message; default 0 */
type BinaryEncoder = (message: Message, headroom?: number) => Buffer<ArrayBuffer>;

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;

const SCALARS: { readonly [type in ScalarType]?: readonly [wireType: number, write: Writer["write"]] } = {
  [ScalarType.STRING]: [DELIMITED, writeString],
  [ScalarType.BOOL]: [VARINT, writeBool],
  [ScalarType.INT32]: [VARINT, writeInt32],
  [ScalarType.INT64]: [VARINT, writeInt64],
};

const KEY = tagOf(1, DELIMITED);
const VALUE = tagOf(2, DELIMITED);
const ENTRY = tagOf(1, DELIMITED);
const ELEMENT = tagOf(1, DELIMITED);

const NULL_VALUE = tagOf(1, VARINT);
const NUMBER_VALUE = tagOf(2, FIXED64);
const STRING_VALUE = tagOf(3, DELIMITED);
const BOOL_VALUE = tagOf(4, VARINT);
const STRUCT_VALUE = tagOf(5, DELIMITED);
const LIST_VALUE = tagOf(6, DELIMITED);

/**
 * Compiles an encoder that returns the same bytes as `toBinary`. Returns undefined if the type has a field that the
 * encoder does not support. If the encoder throws, call `toBinary`, which may support the message. The encoder saves
 * 34 % of the CPU of a gRPC call. With the BinaryWriter of protobuf-es, it would save 14 %.
 */
export function compileBinaryEncoder(desc: DescMessage): BinaryEncoder | undefined {
  const plan = planOf(desc, new Map());
  if (!plan) return undefined;
  return (message, headroom = 0) => {
    if (buffer.byteLength > MAX_KEPT_BYTES) buffer = Buffer.allocUnsafe(FIRST_BYTES);
    end = headroom;
    writeFields(message as unknown as Fields, plan);
    const copy = Buffer.allocUnsafe(end) as Buffer<ArrayBuffer>;
    buffer.copy(copy, 0, 0, end);
    return copy;
  };
}

function planOf(desc: DescMessage, known: Map<DescMessage, MessagePlan>): MessagePlan | undefined {
  const ready = known.get(desc);
  if (ready) return ready;
  const plan: MessagePlan = { typeName: desc.typeName, fields: [] };
  known.set(desc, plan);
  for (const field of desc.fields.toSorted((a, b) => a.number - b.number)) {
    const presence = presenceOf(field);
    const writer = writerOf(field, known);
    if (!presence || !writer) return undefined;
    plan.fields.push({ of: undefined, ...writer, presence });
  }
  return plan;
}

function writerOf(field: DescField, known: Map<DescMessage, MessagePlan>): Writer | undefined {
  switch (field.fieldKind) {
    case "scalar":
      return field.scalar === ScalarType.INT64 && field.longAsString
        ? undefined
        : scalarWriter(field.number, field.scalar);
    case "enum":
      return scalarWriter(field.number, ScalarType.INT32);
    case "message":
      return messageWriter(field.number, field, known);
    case "list": {
      const of = field.listKind === "message" ? messageWriter(field.number, field, known) : undefined;
      return of && { write: writeList, tag: of.tag, of };
    }
    case "map":
      return field.mapKey === ScalarType.STRING && field.scalar === ScalarType.STRING
        ? { write: writeMap, tag: tagOf(field.number, DELIMITED) }
        : undefined;
  }
}

function scalarWriter(fieldNumber: number, type: ScalarType): Writer | undefined {
  const [wireType, write] = SCALARS[type] ?? [];
  return wireType === undefined || !write ? undefined : { write, tag: tagOf(fieldNumber, wireType) };
}

function messageWriter(
  fieldNumber: number,
  field: DescField & { readonly message: DescMessage; readonly delimitedEncoding: boolean },
  known: Map<DescMessage, MessagePlan>,
): Writer | undefined {
  // Wrapper fields are not supported, because protobuf-es stores only the wrapped value.
  const isUnsupported = isWrapperDesc(field.message) || field.parent.typeName === "google.protobuf.Value";
  if (isUnsupported || field.delimitedEncoding) return undefined;
  const tag = tagOf(fieldNumber, DELIMITED);
  if (holdsJsonObject(field)) return { write: writeStruct, tag };
  const of = planOf(field.message, known);
  return of && { write: writeMessage, tag, of };
}

function tagOf(fieldNumber: number, wireType: number): number {
  return ((fieldNumber << 3) | wireType) >>> 0;
}

/*
 * The functions below write the wire format of protobuf (https://protobuf.dev/programming-guides/encoding/). All
 * encoders share one buffer. Encoding is synchronous, so the bytes of two messages never mix.
 */

const FIRST_BYTES = 4096;
const MAX_KEPT_BYTES = 1024 * 1024;

let buffer = Buffer.allocUnsafe(FIRST_BYTES);
let end = 0;

function writeFields(message: Fields, { typeName, fields }: MessagePlan): void {
  if (message["$typeName"] !== typeName) throw new TypeError("the message is of another type");
  if (message["$unknown"] !== undefined) throw new TypeError("the message has unknown fields");
  for (const field of fields) {
    const value = presentValue(message, field.presence);
    if (value !== undefined) field.write(value as never, field.tag, field.of as never);
  }
}

function writeMessage(message: Fields, tag: number, plan: MessagePlan): void {
  const start = beginDelimited(tag);
  writeFields(message, plan);
  endDelimited(start);
}

function writeList(values: readonly unknown[], _tag: number, { write, tag, of }: Writer): void {
  for (const value of values) write(value as never, tag, of as never);
}

function writeMap(map: { readonly [key: string]: string }, tag: number): void {
  for (const key of Object.keys(map)) {
    const start = beginDelimited(tag);
    writeString(key, KEY);
    writeString(map[key] as string, VALUE);
    endDelimited(start);
  }
}

function writeStruct(object: Fields, tag: number): void {
  if (!isPlainObject(object)) throw new TypeError("not a JSON object");
  const start = beginDelimited(tag);
  for (const key of Object.keys(object)) {
    const entry = beginDelimited(ENTRY);
    writeString(key, KEY);
    writeJsonValue(object[key], VALUE);
    endDelimited(entry);
  }
  endDelimited(start);
}

function writeJsonValue(value: unknown, tag: number): void {
  const start = beginDelimited(tag);
  switch (typeof value) {
    case "number":
      writeDouble(value, NUMBER_VALUE);
      break;
    case "string":
      writeString(value, STRING_VALUE);
      break;
    case "boolean":
      writeBool(value, BOOL_VALUE);
      break;
    case "object":
      if (value === null) writeBool(false, NULL_VALUE);
      else if (!Array.isArray(value)) writeStruct(value as Fields, STRUCT_VALUE);
      else {
        const list = beginDelimited(LIST_VALUE);
        for (const element of value) writeJsonValue(element, ELEMENT);
        endDelimited(list);
      }
      break;
    default:
      throw new TypeError("not a JSON value");
  }
  endDelimited(start);
}

/** Starts a length-prefixed value. Returns the position of the length, which `endDelimited` needs. */
function beginDelimited(tag: number): number {
  writeVarint(tag);
  if (end === buffer.byteLength) reserve(1);
  return end++;
}

function endDelimited(start: number): void {
  const length = end - start - 1;
  if (length <= 0x7f) {
    buffer[start] = length;
    return;
  }
  const extra = length < 1 << 14 ? 1 : length < 1 << 21 ? 2 : length < 1 << 28 ? 3 : 4;
  if (end + extra > buffer.byteLength) reserve(extra);
  buffer.copyWithin(start + 1 + extra, start + 1, end);
  end = start;
  writeVarint(length);
  end += length;
}

/**
 * The maximum string length for which a loop is faster than `Buffer.write`. Must be below 128, so that the encoded
 * length takes one byte.
 */
const MAX_ASCII_LOOP = 64;

function writeString(text: string, tag: number): void {
  if (typeof text !== "string") throw new TypeError("not a string");
  writeVarint(tag);
  const { length } = text;
  if (end + 5 + 3 * length > buffer.byteLength) reserve(5 + 3 * length);
  if (length <= MAX_ASCII_LOOP) {
    let at = 0;
    for (; at < length; at++) {
      const code = text.charCodeAt(at);
      if (code > 0x7f) break;
      buffer[end + 1 + at] = code;
    }
    if (at === length) {
      buffer[end] = length;
      end += 1 + length;
      return;
    }
  }
  writeVarint(Buffer.byteLength(text));
  end += buffer.write(text, end, "utf8");
}

function writeBool(value: boolean, tag: number): void {
  writeVarint(tag);
  writeVarint(value ? 1 : 0);
}

/** A negative int32 or enum value takes ten bytes. */
function writeInt32(value: number, tag: number): void {
  if (!Number.isInteger(value) || value < -0x80000000 || value > 0x7fffffff) throw new RangeError("not an int32");
  if (value < 0) {
    writeInt64(BigInt(value), tag);
    return;
  }
  writeVarint(tag);
  writeVarint(value);
}

function writeInt64(value: bigint, tag: number): void {
  if (typeof value !== "bigint") throw new RangeError("not an int64");
  writeVarint(tag);
  let rest = value;
  if (value < 0n || value > 0xffffffffn) {
    if (BigInt.asIntN(64, value) !== value) throw new RangeError("not an int64");
    if (end + 10 > buffer.byteLength) reserve(10);
    rest = BigInt.asUintN(64, value);
    for (; rest > 0xffffffffn; rest >>= 7n) buffer[end++] = Number(rest & 0x7fn) | 0x80;
  }
  writeVarint(Number(rest));
}

function writeDouble(value: number, tag: number): void {
  writeVarint(tag);
  if (end + 8 > buffer.byteLength) reserve(8);
  end = buffer.writeDoubleLE(value, end);
}

/** Writes an unsigned number below 2^32. */
function writeVarint(value: number): void {
  if (end + 5 > buffer.byteLength) reserve(5);
  let rest = value;
  for (; rest > 0x7f; rest >>>= 7) buffer[end++] = (rest & 0x7f) | 0x80;
  buffer[end++] = rest;
}

function reserve(bytes: number): void {
  const larger = Buffer.allocUnsafe(Math.max(end + bytes, buffer.byteLength * 2));
  buffer.copy(larger, 0, 0, end);
  buffer = larger;
}
