import type { DescMethodUnary, JsonWriteOptions, Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createMethodSerializationLookup, type UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import { type BinaryEncoder, compileBinaryEncoder } from "./binary-encoder.ts";
import { compileJsonEncoder } from "./json-encoder.ts";
import { hasLenientJson, requireStrictJson } from "./strict-json.ts";
import { structDetour } from "./struct-detour.ts";

/** Turns the messages of a method into bytes and back; throws ConnectErrors. */
export interface Serialization {
  readonly isBinary: boolean;
  readonly parse: (bytes: Uint8Array) => Message;
  /** Texts stand for their UTF-8. */
  readonly serialize: (message: Message) => Uint8Array | string;
  /** Room in front, and the message behind it; undefined where only `serialize` knows how. */
  readonly serializeBehind: (message: Message, front: number) => Buffer<ArrayBuffer> | undefined;
}

type Parser = Pick<Serialization, "parse">;

/** How the messages of a method are written in protobuf's binary format. */
export function binarySerialization(desc: DescMethodUnary, options: UniversalHandlerOptions): Serialization {
  const output = createMethodSerializationLookup(desc, options.binaryOptions, undefined, options).getO(true);
  return serialization(true, { input: binaryInput(desc, options), output }, options, {
    encode: options.binaryOptions?.writeUnknownFields === false ? undefined : compileBinaryEncoder(desc.output),
  });
}

/** How they are written in JSON. */
export function jsonSerialization(desc: DescMethodUnary, options: UniversalHandlerOptions): Serialization {
  const lookup = createMethodSerializationLookup(desc, undefined, options.jsonOptions, options);
  const input = strictly(desc, lookup.getI(false));
  return serialization(false, { input, output: lookup.getO(false) }, options, {
    toText: hasWriteOptions(options.jsonOptions) ? undefined : compileJsonEncoder(desc.output),
  });
}

/** How Connect decodes the binary requests of a method, but that repetitions within them cost no more than their bytes. */
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

/** Parses JSON as Connect does, but for what protobuf-es takes for a message although it is none. */
function strictly({ input: desc }: DescMethodUnary, input: Parser): Parser {
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

/** What Connect does, by way of the compiled functions where those know how and the limits are kept. */
function serialization(
  isBinary: boolean,
  { input, output }: { readonly input: Parser; readonly output: { serialize(message: Message): Uint8Array } },
  { writeMaxBytes }: UniversalHandlerOptions,
  compiled: {
    readonly encode?: BinaryEncoder | undefined;
    readonly toText?: ((message: Message) => string) | undefined;
  },
): Serialization {
  const { encode, toText } = compiled;
  const serializeBehind = (message: Message, front: number) => {
    try {
      const bytes = encode?.(message, front);
      return bytes && bytes.byteLength - front <= writeMaxBytes ? bytes : undefined;
    } catch {
      // Connect's own encoder knows what is wrong with it, or how it is done.
      return undefined;
    }
  };
  const serializeText = (message: Message) => {
    try {
      const text = toText?.(message);
      if (text === undefined) return undefined;
      // A character has at most three bytes, so that few texts need be measured.
      return text.length * 3 <= writeMaxBytes || Buffer.byteLength(text) <= writeMaxBytes ? text : undefined;
    } catch {
      return undefined;
    }
  };
  return {
    isBinary,
    parse: (bytes) => input.parse(plainBytes(bytes)),
    serialize: (message) => serializeBehind(message, 0) ?? serializeText(message) ?? output.serialize(message),
    serializeBehind,
  };
}

/** The same bytes, and no Buffer: fields of messages are cut out of them, and `slice` of a Buffer does not copy. */
function plainBytes({ buffer, byteOffset, byteLength }: Uint8Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function hasWriteOptions(options: Partial<JsonWriteOptions> | undefined): boolean {
  return Boolean(
    options?.registry || options?.alwaysEmitImplicit || options?.enumAsInteger || options?.useProtoFieldName,
  );
}
