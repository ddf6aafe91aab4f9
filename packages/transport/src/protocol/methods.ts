import type { DescMethod, DescMethodUnary, DescService } from "@bufbuild/protobuf";
import {
  type ConnectRouter,
  type ConnectRouterOptions,
  createConnectRouter,
  createMethodImplSpec,
  createServiceImplSpec,
  type Interceptor,
  type MethodImplSpec,
} from "@connectrpc/connect";
import {
  type UniversalHandler,
  type UniversalHandlerOptions,
  validateUniversalHandlerOptions,
} from "@connectrpc/connect/protocol";
import type { Serialization } from "../codec/serialization.ts";
import { COMPRESSIONS } from "./compression.ts";
import type { RpcProtocol } from "./headers.ts";

export interface UnaryMethod {
  readonly desc: DescMethodUnary;
  readonly impl: (request: never, context: never) => unknown;
  readonly options: UniversalHandlerOptions;
  /** The implementation, wrapped in its interceptors; undefined before the first call. */
  handler: ReturnType<Interceptor> | undefined;
  /** The serialization of each format. Created at the first call in the format, to shorten the start of the server. */
  binary: Serialization | undefined;
  json: Serialization | undefined;
  readonly protocols: { readonly [protocol in RpcProtocol]: boolean };
}

export interface Rpc {
  readonly handler: UniversalHandler;
  /** The unary method; undefined for a streaming method. */
  readonly unary: UnaryMethod | undefined;
  /** The maximum size of a request message, in bytes. */
  readonly readMaxBytes: number;
}

export interface RpcOptions extends ConnectRouterOptions {
  readonly routes: (router: ConnectRouter) => void;
  /**
   * When this signal aborts, all streaming calls end, but unary calls continue. Default: `shutdownSignal`. When
   * `shutdownSignal` aborts, unary calls end as well.
   */
  readonly streamsSignal?: AbortSignal;
}

/**
 * Collects the methods of routes, with the options that Connect's Node adapter would apply.
 *
 * @throws TypeError for the unsupported option `requireConnectProtocolHeader`
 */
export function collectRpcs({ routes, streamsSignal, ...given }: RpcOptions): Rpc[] {
  // Connect's adapter sets this default of `acceptCompression`. `validateUniversalHandlerOptions` sets all other
  // defaults.
  const base = { ...given, acceptCompression: given.acceptCompression ?? [...COMPRESSIONS] };
  // Creates the handlers of streams, and rejects invalid routes.
  const connectRouter = createConnectRouter(streamsSignal ? { ...base, shutdownSignal: streamsSignal } : base);
  const rpcs: Rpc[] = [];
  const add = ({ kind, method, impl }: MethodImplSpec, own: ConnectRouterOptions | undefined) => {
    const merged = { ...base, ...own };
    const options = validateUniversalHandlerOptions(merged);
    if (options.requireConnectProtocolHeader) throw new TypeError("requireConnectProtocolHeader is not supported");
    const { grpc, grpcWeb, connect } = merged;
    const protocols = { grpc: grpc !== false, "grpc-web": grpcWeb !== false, connect: connect !== false };
    const unary: UnaryMethod | undefined =
      kind === "unary"
        ? { desc: method, impl, options, protocols, handler: undefined, binary: undefined, json: undefined }
        : undefined;
    const handler = connectRouter.rpc(method, impl as never, own).handlers.at(-1) as UniversalHandler;
    rpcs.push({ handler, unary, readMaxBytes: options.readMaxBytes });
  };
  const router: ConnectRouter = {
    handlers: connectRouter.handlers,
    service: (service: DescService, implementation: never, options?: ConnectRouterOptions) => {
      for (const spec of Object.values(createServiceImplSpec(service, implementation).methods)) add(spec, options);
      return router;
    },
    rpc: (method: DescMethod, implementation: never, options?: ConnectRouterOptions) => {
      add(createMethodImplSpec(method, implementation), options);
      return router;
    },
  } as ConnectRouter;
  routes(router);
  return rpcs;
}
