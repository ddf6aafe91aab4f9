import { type DescField, type DescMessage, type JsonValue, ScalarType } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/**
 * A position at which a message can contain a string. `json` and `binary` create a message that contains only a given
 * string, at this position.
 */
export interface TextPosition {
  /** Path of the position, such as `user_groups[].mapping.VALUE`. */
  readonly name: string;
  /**
   * Returns the message in protobuf JSON. The names of the fields are those of the proto files, because REST also
   * accepts these names.
   */
  readonly json: (text: string) => JsonValue;
  /** Returns the encoded message. @param text the bytes of the string. They need not be valid UTF-8 */
  readonly binary: (text: Uint8Array) => Uint8Array;
}

const KEY = "k";

/** Returns the position of each string in a message. The service stores these strings, or searches for them. */
export function textPositions(desc: DescMessage): TextPosition[] {
  switch (desc.typeName) {
    case "google.protobuf.Struct":
      return STRUCT;
    // In JSON, these messages are strings, but the strings contain no text of users.
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

/**
 * Converts a position. `inner` is relative to the value of the field, and the result is relative to the message that
 * contains the field.
 */
function within(field: DescField, inner: TextPosition): TextPosition {
  const isList = field.fieldKind === "list";
  return {
    name: [field.name + (isList ? "[]" : ""), inner.name].filter((part) => part !== "").join("."),
    json: (text) => ({ [field.name]: isList ? [inner.json(text)] : inner.json(text) }),
    binary: (text) => delimited(field.number, inner.binary(text)),
  };
}

/**
 * Field numbers of google/protobuf/struct.proto: Struct.fields 1, Value.string_value 3, Value.list_value 6,
 * ListValue.values 1.
 */
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

/** Encodes an entry of a map, with the key in field 1 and the value in field 2. */
function entry(key: Uint8Array, value: Uint8Array): Uint8Array {
  return Buffer.concat([delimited(1, key), delimited(2, value)]);
}

function delimited(number: number, bytes: Uint8Array): Uint8Array {
  return new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(bytes).finish();
}
