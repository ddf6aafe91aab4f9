import { create, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";

/** Decodes plain requests; undefined for any other, which protobuf-es knows what to do with. */
export type PlainDecoder = (bytes: Uint8Array) => Message | undefined;

type MutableFields = { [localName: string]: unknown };
type SetText = (message: MutableFields, text: string) => void;

/** JSON in ASCII without escapes or control characters: its texts are what they look like. */
const PLAIN_JSON = /^[\x20-\x5b\x5d-\x7e]*$/;

/** Longer JSON is left to protobuf-es. */
const MAX_JSON_BYTES = 1024;

/** Longer texts of protobuf have a length of more than one byte. */
const MAX_TEXT_BYTES = 0x7f;

/**
 * Makes a function that decodes JSON as `fromJsonString` does, to the same
 * message, several times as fast, where all that is there is short and plain: the
 * fields by their JSON names, each a text in ASCII, and nothing twice.
 */
export function compilePlainJsonDecoder(desc: DescMessage): PlainDecoder {
  // Their JSON is of a form of its own.
  if (desc.typeName.startsWith("google.protobuf.")) return () => undefined;
  const setters = new Map<string, SetText>();
  for (const field of desc.fields) {
    const set = textSetter(field);
    // What is in a oneof must be there alone; that is for protobuf-es to see to.
    if (set && !field.oneof) setters.set(field.jsonName, set);
  }
  return (bytes) => {
    // What is long takes longer to look at in vain, and may be nested as deep as to overflow the stack.
    if (bytes.byteLength > MAX_JSON_BYTES) return undefined;
    const text = latin1Of(bytes, 0, bytes.byteLength);
    if (!PLAIN_JSON.test(text)) return undefined;
    const value = parse(text);
    // A key that was there twice, or white space, is not written back.
    if (value === undefined || JSON.stringify(value) !== text) return undefined;
    const message = create(desc) as unknown as MutableFields;
    for (const key of Object.keys(value)) {
      const set = setters.get(key);
      const field = value[key];
      if (!set || typeof field !== "string") return undefined;
      set(message, field);
    }
    return message as unknown as Message;
  };
}

function parse(text: string): { readonly [key: string]: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as { readonly [key: string]: unknown })
      : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Makes a function that decodes protobuf's wire format as `fromBinary` does, to
 * the same message, several times as fast, where all that is there is short and
 * plain: texts in ASCII of up to 127 characters.
 */
export function compilePlainBinaryDecoder(desc: DescMessage): PlainDecoder {
  /** By the byte that such a field begins with. */
  const setters: (SetText | undefined)[] = [];
  for (const field of desc.fields) {
    const tag = (field.number << 3) | 2;
    if (tag <= 0x7f) setters[tag] = textSetter(field);
  }
  return (bytes) => {
    const message = create(desc) as unknown as MutableFields;
    let at = 0;
    while (at < bytes.byteLength) {
      const set = setters[bytes[at] as number];
      const start = at + 2;
      const length = bytes[at + 1] ?? Number.POSITIVE_INFINITY;
      at = start + length;
      if (!set || length > MAX_TEXT_BYTES || at > bytes.byteLength || !isAscii(bytes, start, at)) return undefined;
      set(message, latin1Of(bytes, start, at));
    }
    return message as unknown as Message;
  };
}

/** What gives a message the text of a field; undefined for a field that holds none. */
function textSetter(field: DescField): SetText | undefined {
  if (field.fieldKind !== "scalar" || field.scalar !== ScalarType.STRING) return undefined;
  if (field.presence === FeatureSet_FieldPresence.LEGACY_REQUIRED) return undefined;
  const name = field.localName;
  if (field.oneof) {
    const oneofName = field.oneof.localName;
    return (message, value) => {
      message[oneofName] = { case: name, value };
    };
  }
  return (message, value) => {
    message[name] = value;
  };
}

function isAscii(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if ((bytes[i] as number) > 0x7f) return false;
  return true;
}

function latin1Of(bytes: Uint8Array, start: number, end: number): string {
  const buffer = bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.toString("latin1", start, end);
}
