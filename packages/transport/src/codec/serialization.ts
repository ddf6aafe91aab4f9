import {
  create,
  type DescField,
  type DescMessage,
  type DescMethodUnary,
  type JsonWriteOptions,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { createMethodSerializationLookup, type UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import { compileBinaryEncoder } from "./binary-encoder.ts";
import { isWellKnown } from "./fields.ts";
import { compileJsonEncoder } from "./json-encoder.ts";
import { hasLenientJson, requireStrictJson } from "./strict-json.ts";
import { structDetour } from "./struct-detour.ts";

/** Converts the messages of a method to bytes and back. Throws ConnectErrors. */
export interface Serialization {
  /** Parses plain messages, as most are; undefined for all others, which are left to `parse`. */
  readonly parsePlain: PlainDecoder;
  readonly parse: (bytes: Uint8Array) => Message;
  /** Serializes a message behind `headroom` bytes, whose content is undefined. A string stands for its UTF-8 bytes. */
  readonly serialize: (message: Message, headroom: number) => Buffer | string;
}

type Parser = Pick<Serialization, "parse">;

/** The serialization of a method's messages in protobuf's binary format. */
export function binarySerialization(desc: DescMethodUnary, options: UniversalHandlerOptions): Serialization {
  const output = createMethodSerializationLookup(desc, options.binaryOptions, undefined, options).getO(true);
  const keepsUnknown = options.binaryOptions?.writeUnknownFields !== false;
  const encode = keepsUnknown ? compileBinaryEncoder(desc.output) : undefined;
  const serialize = (message: Message, headroom: number) => {
    try {
      const bytes = encode?.(message, headroom);
      if (bytes && bytes.byteLength - headroom <= options.writeMaxBytes) return bytes;
    } catch {
      // Connect's own encoder either encodes the message or throws the right error.
    }
    return Buffer.concat([Buffer.alloc(headroom), output.serialize(message)]);
  };
  return {
    parsePlain: compilePlainBinaryDecoder(desc.input),
    parse: parserOf(binaryInput(desc, options)),
    serialize,
  };
}

/** The serialization of a method's messages in JSON. */
export function jsonSerialization(desc: DescMethodUnary, options: UniversalHandlerOptions): Serialization {
  const lookup = createMethodSerializationLookup(desc, undefined, options.jsonOptions, options);
  const output = lookup.getO(false);
  const toText = hasWriteOptions(options.jsonOptions) ? undefined : compileJsonEncoder(desc.output);
  const { writeMaxBytes } = options;
  const serialize = (message: Message, headroom: number) => {
    try {
      const text = toText?.(message);
      // A UTF-16 unit takes at most three bytes in UTF-8, so few texts need to be measured.
      const isShort =
        text !== undefined && (text.length * 3 <= writeMaxBytes || Buffer.byteLength(text) <= writeMaxBytes);
      if (isShort) return headroom === 0 ? text : Buffer.concat([Buffer.alloc(headroom), Buffer.from(text)]);
    } catch {
      // Connect's own encoder either encodes the message or throws the right error.
    }
    return Buffer.concat([Buffer.alloc(headroom), output.serialize(message)]);
  };
  return {
    parsePlain: compilePlainJsonDecoder(desc.input),
    parse: parserOf(strictJsonParser(desc, lookup.getI(false))),
    serialize,
  };
}

/** protobuf-es copies bytes fields with `slice`, which does not copy on a Buffer. */
function parserOf(input: Parser): Parser["parse"] {
  return ({ buffer, byteOffset, byteLength }) => input.parse(new Uint8Array(buffer, byteOffset, byteLength));
}

/** Connect's binary parser, modified so that the cost of repeated Struct fields is linear in their bytes. */
function binaryInput(desc: DescMethodUnary, options: UniversalHandlerOptions): Parser {
  const detour = structDetour(desc.input);
  const method = detour ? { ...desc, input: detour.desc } : desc;
  const input = createMethodSerializationLookup(method, options.binaryOptions, undefined, options).getI(true);
  if (!detour) return input;
  return {
    parse: (bytes) => {
      const message = input.parse(bytes);
      detour.restore(message);
      return message;
    },
  };
}

/** Connect's JSON parser, which also refuses invalid JSON that protobuf-es accepts. */
function strictJsonParser({ input: desc }: DescMethodUnary, input: Parser): Parser {
  if (!hasLenientJson(desc)) return input;
  return {
    parse: (bytes) => {
      const message = input.parse(bytes);
      try {
        requireStrictJson(desc, JSON.parse(new TextDecoder().decode(bytes)));
      } catch (reason) {
        throw ConnectError.from(reason, Code.InvalidArgument);
      }
      return message;
    },
  };
}

function hasWriteOptions(options: Partial<JsonWriteOptions> | undefined): boolean {
  return Boolean(
    options?.registry || options?.alwaysEmitImplicit || options?.enumAsInteger || options?.useProtoFieldName,
  );
}

/** Decodes plain requests; undefined for all others, which protobuf-es decodes or refuses. */
export type PlainDecoder = (bytes: Buffer) => Message | undefined;

type MutableFields = { [localName: string]: unknown };

/** A JSON string in ASCII without escapes. */
const TEXT = '"[ !#-[\\]-~]*"';
/** An object of such strings, without spaces between them. */
const PLAIN_JSON = new RegExp(`^\\{(?:${TEXT}:${TEXT}(?:,${TEXT}:${TEXT})*)?\\}$`);

/**
 * The longest JSON that is looked at, in bytes. Longer JSON costs more to look at in vain, and may be nested so deep
 * that it overflows the stack.
 */
const MAX_JSON_BYTES = 1024;

/** The longest text whose length is one byte in the binary format, in bytes. */
const MAX_TEXT_BYTES = 0x7f;

/**
 * Compiles a decoder of plain JSON: an object of texts in ASCII under the JSON names of string fields, without spaces,
 * escapes or duplicate keys. It produces the same message as `fromJsonString`, several times as fast.
 */
export function compilePlainJsonDecoder(desc: DescMessage): PlainDecoder {
  if (isWellKnown(desc)) return () => undefined;
  // protobuf-es has to check that no other field of a oneof is set.
  const fields = desc.fields.filter((field) => isText(field) && !field.oneof);
  const names = new Map(fields.map(({ jsonName, localName }) => [jsonName, localName]));
  return (bytes) => {
    if (bytes.byteLength > MAX_JSON_BYTES) return undefined;
    const text = bytes.toString("latin1");
    if (!PLAIN_JSON.test(text)) return undefined;
    const message = create(desc) as unknown as MutableFields;
    // Quotes only stand around keys and values: every fourth piece is a key, and its value comes two pieces later.
    const pieces = text.split('"');
    for (let at = 1; at < pieces.length; at += 4) {
      const key = pieces[at] as string;
      const name = names.get(key);
      // A key that occurs twice is found at its first place.
      if (name === undefined || pieces.indexOf(key) !== at) return undefined;
      message[name] = pieces[at + 2];
    }
    return message as unknown as Message;
  };
}

/**
 * Compiles a decoder of plain messages in the binary format: string fields alone, in ASCII and up to 127 characters
 * long. It produces the same message as `fromBinary`, several times as fast.
 */
export function compilePlainBinaryDecoder(desc: DescMessage): PlainDecoder {
  /** By the tag of the field, which is one byte. */
  const fields: (DescField | undefined)[] = [];
  for (const field of desc.fields) {
    const tag = (field.number << 3) | 2;
    if (tag <= 0x7f && isText(field)) fields[tag] = field;
  }
  return (bytes) => {
    const message = create(desc) as unknown as MutableFields;
    for (let at = 0; at < bytes.byteLength; ) {
      const field = fields[bytes[at] as number];
      const length = bytes[at + 1] ?? Number.POSITIVE_INFINITY;
      const start = at + 2;
      const end = start + length;
      if (!field || length > MAX_TEXT_BYTES || end > bytes.byteLength) return undefined;
      for (at = start; at < end; at++) if ((bytes[at] as number) > 0x7f) return undefined;
      const { localName, oneof } = field;
      const value = bytes.toString("latin1", start, end);
      if (oneof) message[oneof.localName] = { case: localName, value };
      else message[localName] = value;
    }
    return message as unknown as Message;
  };
}

/** Whether a field is a string that may be missing. */
function isText(field: DescField): boolean {
  const isString = field.fieldKind === "scalar" && field.scalar === ScalarType.STRING;
  return isString && field.presence !== FeatureSet_FieldPresence.LEGACY_REQUIRED;
}
