import type { DescMethod, DescMethodUnary, DescService, JsonWriteOptions, Message } from "@bufbuild/protobuf";
import {
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
import { compileBinaryEncoder } from "./fast-binary.ts";
import { compileJsonEncoder } from "./fast-json.ts";

/** Turns the messages of a method into bytes and back; throws ConnectErrors. */
export interface Serialization {
  readonly parse: (bytes: Uint8Array) => Message;
  /** Texts stand for their UTF-8. */
  readonly serialize: (message: Message) => Uint8Array | string;
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
 * Connect's own router would serve them with.
 */
export function unaryMethods(routes: (router: ConnectRouter) => void, base: ConnectRouterOptions): UnaryMethod[] {
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
  const fastBinary = binaryOptions?.writeUnknownFields === false ? undefined : compileBinaryEncoder(desc.output);
  const fastJson = hasWriteOptions(jsonOptions) ? undefined : compileJsonEncoder(desc.output);
  return {
    desc,
    impl,
    path: createMethodUrl("/", desc),
    options,
    binary: serialization(lookup.getI(true), lookup.getO(true), fastBinary, options.writeMaxBytes),
    json: serialization(lookup.getI(false), lookup.getO(false), fastJson, options.writeMaxBytes),
    protocols: { grpc: given.grpc !== false, grpcWeb: given.grpcWeb !== false, connect: given.connect !== false },
  };
}

/** What Connect does, by way of the fast encoder where that knows how and the limit is kept. */
function serialization(
  input: Pick<Serialization, "parse">,
  output: Pick<Serialization, "serialize">,
  fast: Serialization["serialize"] | undefined,
  maxBytes: number,
): Serialization {
  return {
    parse: (bytes) => input.parse(bytes),
    serialize: (message) => {
      try {
        const body = fast?.(message);
        if (body !== undefined && Buffer.byteLength(body) <= maxBytes) return body;
      } catch {
        // Connect's own encoder knows what is wrong with it, or how it is done.
      }
      return output.serialize(message);
    },
  };
}

function hasWriteOptions(options: Partial<JsonWriteOptions> | undefined): boolean {
  return Boolean(
    options?.registry || options?.alwaysEmitImplicit || options?.enumAsInteger || options?.useProtoFieldName,
  );
}
