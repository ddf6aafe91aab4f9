import { type DescField, type DescMessage, type JsonValue, ScalarType } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/** A position of a string in a message, and messages with a string only there. */
export interface TextPosition {
  /** Such as `user_groups[].mapping.VALUE`. */
  readonly name: string;
  /** With the names in the proto files, which REST uses too. */
  readonly json: (text: string) => JsonValue;
  /** @param text its bytes, which may be invalid UTF-8 */
  readonly binary: (text: Uint8Array) => Uint8Array;
}

const KEY = "k";

/** Returns all positions of strings that messages of a type store or search for. */
export function textPositions(desc: DescMessage): TextPosition[] {
  switch (desc.typeName) {
    case "google.protobuf.Struct":
      return STRUCT;
    // JSON writes these as strings, but they are not.
    case "google.protobuf.Duration":
    case "google.protobuf.Timestamp":
    case "google.protobuf.FieldMask":
      return [];
    default:
      return desc.fields.flatMap(positionsIn);
  }
}

function positionsIn(field: DescField): TextPosition[] {
  if (field.fieldKind === "map") {
    const key: TextPosition = {
      name: "KEY",
      json: (text) => ({ [text]: KEY }),
      binary: (text) => entry(text, Buffer.from(KEY)),
    };
    const value: TextPosition = {
      name: "VALUE",
      json: (text) => ({ [KEY]: text }),
      binary: (text) => entry(Buffer.from(KEY), text),
    };
    return [key, value].map((position) => within(field, position));
  }
  if (field.fieldKind !== "enum" && field.message) return textPositions(field.message).map((one) => within(field, one));
  const isText = (field.fieldKind === "scalar" || field.fieldKind === "list") && field.scalar === ScalarType.STRING;
  return isText ? [within(field, { name: "", json: (text) => text, binary: (text) => text })] : [];
}

/** Returns the position of a field's value. */
function within(field: DescField, inner: TextPosition): TextPosition {
  const isList = field.fieldKind === "list";
  return {
    name: [field.name + (isList ? "[]" : ""), inner.name].filter((part) => part !== "").join("."),
    json: (text) => ({ [field.name]: isList ? [inner.json(text)] : inner.json(text) }),
    binary: (text) => delimited(field.number, inner.binary(text)),
  };
}

/** google/protobuf/struct.proto: fields = 1 of Struct; string_value = 3, list_value = 6 of Value; values = 1. */
const textValue = (text: Uint8Array) => delimited(3, text);
const STRUCT: TextPosition[] = [
  {
    name: "KEY",
    json: (text) => ({ [text]: KEY }),
    binary: (text) => delimited(1, entry(text, textValue(Buffer.from(KEY)))),
  },
  {
    name: "VALUE",
    json: (text) => ({ [KEY]: text }),
    binary: (text) => delimited(1, entry(Buffer.from(KEY), textValue(text))),
  },
  {
    name: "LIST[]",
    json: (text) => ({ [KEY]: [text] }),
    binary: (text) => delimited(1, entry(Buffer.from(KEY), delimited(6, delimited(1, textValue(text))))),
  },
];

/** Encodes an entry of a map: key = 1, value = 2. */
function entry(key: Uint8Array, value: Uint8Array): Uint8Array {
  return Buffer.concat([delimited(1, key), delimited(2, value)]);
}

function delimited(number: number, bytes: Uint8Array): Uint8Array {
  return new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(bytes).finish();
}
