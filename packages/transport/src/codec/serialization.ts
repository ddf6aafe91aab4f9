import type { DescMethodUnary, JsonWriteOptions, Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createMethodSerializationLookup, type UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import { compileBinaryEncoder } from "./binary-encoder.ts";
import { compileJsonEncoder } from "./json-encoder.ts";
import { compilePlainBinaryDecoder, compilePlainJsonDecoder, type PlainDecoder } from "./plain-decoders.ts";
import { hasLenientJson, requireStrictJson } from "./strict-json.ts";
import { structDetour } from "./struct-detour.ts";

/** Converts the messages of a method to bytes and back. Throws ConnectErrors. */
export interface Serialization {
  readonly isBinary: boolean;
  readonly parse: (bytes: Uint8Array) => Message;
  /** A string stands for its UTF-8 bytes. */
  readonly serialize: (message: Message) => Uint8Array | string;
  /** Serializes a message behind `headroom` free bytes; undefined when only `serialize` can encode the message. */
  readonly serializeWithHeadroom: (message: Message, headroom: number) => Buffer<ArrayBuffer> | undefined;
}

type Parser = Pick<Serialization, "parse">;

/** The serialization of a method's messages in protobuf's binary format. */
export function binarySerialization(desc: DescMethodUnary, options: UniversalHandlerOptions): Serialization {
  const output = createMethodSerializationLookup(desc, options.binaryOptions, undefined, options).getO(true);
  const keepsUnknown = options.binaryOptions?.writeUnknownFields !== false;
  const encode = keepsUnknown ? compileBinaryEncoder(desc.output) : undefined;
  const serializeWithHeadroom = (message: Message, headroom: number) => {
    try {
      const bytes = encode?.(message, headroom);
      return bytes && bytes.byteLength - headroom <= options.writeMaxBytes ? bytes : undefined;
    } catch {
      // Connect's own encoder either encodes the message or throws the right error.
      return undefined;
    }
  };
  return {
    isBinary: true,
    parse: parserOf(compilePlainBinaryDecoder(desc.input), binaryInput(desc, options), options),
    serialize: (message) => serializeWithHeadroom(message, 0) ?? output.serialize(message),
    serializeWithHeadroom,
  };
}

/** The serialization of a method's messages in JSON. */
export function jsonSerialization(desc: DescMethodUnary, options: UniversalHandlerOptions): Serialization {
  const lookup = createMethodSerializationLookup(desc, undefined, options.jsonOptions, options);
  const output = lookup.getO(false);
  const toText = hasWriteOptions(options.jsonOptions) ? undefined : compileJsonEncoder(desc.output);
  const serializeText = (message: Message) => {
    try {
      const text = toText?.(message);
      if (text === undefined) return undefined;
      const { writeMaxBytes } = options;
      // A UTF-16 unit takes at most three bytes in UTF-8, so few texts need to be measured.
      return text.length * 3 <= writeMaxBytes || Buffer.byteLength(text) <= writeMaxBytes ? text : undefined;
    } catch {
      return undefined;
    }
  };
  return {
    isBinary: false,
    parse: parserOf(compilePlainJsonDecoder(desc.input), strictJsonParser(desc, lookup.getI(false)), options),
    serialize: (message) => serializeText(message) ?? output.serialize(message),
    serializeWithHeadroom: () => undefined,
  };
}

/** Uses the compiled decoder if it supports the message and it is within the size limit, and Connect's otherwise. */
function parserOf(decode: PlainDecoder, input: Parser, { readMaxBytes }: UniversalHandlerOptions): Parser["parse"] {
  return (bytes) => (bytes.byteLength <= readMaxBytes && decode(bytes)) || input.parse(plainBytes(bytes));
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

/**
 * Converts a Buffer to a plain Uint8Array over the same memory. protobuf-es copies bytes fields with `slice`, which
 * does not copy on a Buffer.
 */
function plainBytes({ buffer, byteOffset, byteLength }: Uint8Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function hasWriteOptions(options: Partial<JsonWriteOptions> | undefined): boolean {
  return Boolean(
    options?.registry || options?.alwaysEmitImplicit || options?.enumAsInteger || options?.useProtoFieldName,
  );
}
