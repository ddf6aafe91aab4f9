import type { DescMethod, DescMethodUnary, DescService, JsonWriteOptions, Message } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type ConnectRouterOptions,
  createConnectRouter,
  createMethodImplSpec,
  createServiceImplSpec,
  type MethodImplSpec,
} from "@connectrpc/connect";
import {
  createMethodSerializationLookup,
  createMethodUrl,
  type UniversalHandlerOptions,
  validateUniversalHandlerOptions,
} from "@connectrpc/connect/protocol";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { type BinaryEncoder, compileBinaryEncoder } from "./fast-binary.ts";
import { compileJsonEncoder } from "./fast-json.ts";
import { compilePlainBinaryDecoder, compilePlainJsonDecoder, type PlainDecoder } from "./fast-requests.ts";
import { hasLenientJson, requireStrictJson } from "./strict-json.ts";
import { structDetour } from "./struct-detour.ts";

/** Turns the messages of a method into bytes and back; throws ConnectErrors. */
export interface Serialization {
  readonly parse: (bytes: Uint8Array) => Message;
  /** Texts stand for their UTF-8. */
  readonly serialize: (message: Message) => Uint8Array | string;
  /** Room in front, and the message behind it; undefined where only `serialize` knows how. */
  readonly serializeBehind: (message: Message, front: number) => Buffer<ArrayBuffer> | undefined;
}

/** A unary method with its implementation and the options it is served with. */
export interface UnaryMethod {
  readonly desc: DescMethodUnary;
  readonly impl: (request: never, context: never) => unknown;
  /** Path of its requests, such as `/package.Service/Method`. */
  readonly path: string;
  readonly options: UniversalHandlerOptions;
  readonly binary: Serialization;
  readonly json: Serialization;
  readonly protocols: { readonly grpc: boolean; readonly grpcWeb: boolean; readonly connect: boolean };
}

/**
 * Collects the unary methods that routes register, with the options that
 * Connect's adapter for Node would serve them with.
 */
export function unaryMethods(routes: (router: ConnectRouter) => void, given: ConnectRouterOptions): UnaryMethod[] {
  // The adapter, not the router, knows this default; all others are what the options below are validated to.
  const base = { ...given, acceptCompression: given.acceptCompression ?? [compressionGzip, compressionBrotli] };
  const methods: UnaryMethod[] = [];
  const add = (spec: MethodImplSpec, options: ConnectRouterOptions | undefined) => {
    if (spec.kind === "unary")
      methods.push(unaryMethod(spec.method as DescMethodUnary, spec.impl, { ...base, ...options }));
  };
  // Connect's router binds implementations and refuses what it cannot serve, so it sees every route too.
  const connectRouter = createConnectRouter(base);
  const router: ConnectRouter = {
    handlers: connectRouter.handlers,
    service: (service: DescService, implementation: never, options?: ConnectRouterOptions) => {
      connectRouter.service(service, implementation, options);
      for (const spec of Object.values(createServiceImplSpec(service, implementation).methods)) add(spec, options);
      return router;
    },
    rpc: (method: DescMethod, implementation: never, options?: ConnectRouterOptions) => {
      connectRouter.rpc(method, implementation, options);
      add(createMethodImplSpec(method, implementation), options);
      return router;
    },
  } as ConnectRouter;
  routes(router);
  return methods;
}

function unaryMethod(desc: DescMethodUnary, impl: UnaryMethod["impl"], given: ConnectRouterOptions): UnaryMethod {
  const options = validateUniversalHandlerOptions(given);
  const { binaryOptions, jsonOptions } = options;
  const lookup = createMethodSerializationLookup(desc, binaryOptions, jsonOptions, options);
  return {
    desc,
    impl,
    path: createMethodUrl("/", desc),
    options,
    binary: serialization(binaryInput(desc, options), lookup.getO(true), options, {
      decode: compilePlainBinaryDecoder(desc.input),
      encode: binaryOptions?.writeUnknownFields === false ? undefined : compileBinaryEncoder(desc.output),
    }),
    json: serialization(strictly(desc, lookup.getI(false)), lookup.getO(false), options, {
      decode: compilePlainJsonDecoder(desc.input),
      toText: hasWriteOptions(jsonOptions) ? undefined : compileJsonEncoder(desc.output),
    }),
    protocols: { grpc: given.grpc !== false, grpcWeb: given.grpcWeb !== false, connect: given.connect !== false },
  };
}

/** Parses JSON as Connect does, but for what protobuf-es takes for a message although it is none. */
function strictly({ input: desc }: DescMethodUnary, input: Pick<Serialization, "parse">): Pick<Serialization, "parse"> {
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

/** How Connect decodes the binary requests of a method, but that repetitions within them cost no more than their bytes. */
function binaryInput(desc: DescMethodUnary, options: UniversalHandlerOptions): Pick<Serialization, "parse"> {
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

/** What Connect does, by way of the fast functions where those know how and the limits are kept. */
function serialization(
  input: Pick<Serialization, "parse">,
  output: { readonly serialize: (message: Message) => Uint8Array },
  { readMaxBytes, writeMaxBytes }: UniversalHandlerOptions,
  fast: {
    readonly decode: PlainDecoder;
    readonly encode?: BinaryEncoder | undefined;
    readonly toText?: ((message: Message) => string) | undefined;
  },
): Serialization {
  const { decode, encode, toText } = fast;
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
    parse: (bytes) => (bytes.byteLength <= readMaxBytes ? decode(bytes) : undefined) ?? input.parse(plainBytes(bytes)),
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
