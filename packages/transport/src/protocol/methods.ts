import type { DescMethod, DescMethodUnary, DescService } from "@bufbuild/protobuf";
import {
  type ConnectRouter,
  type ConnectRouterOptions,
  createConnectRouter,
  createMethodImplSpec,
  createServiceImplSpec,
  type MethodImplSpec,
} from "@connectrpc/connect";
import {
  type UniversalHandler,
  type UniversalHandlerOptions,
  validateUniversalHandlerOptions,
} from "@connectrpc/connect/protocol";
import type { Serialization } from "../codec/serialization.ts";
import { type CallHandler, intercepted } from "./call.ts";
import { COMPRESSIONS } from "./compression.ts";
import type { RpcProtocol } from "./headers.ts";

/** A unary method with its implementation and options. */
export interface UnaryMethod {
  readonly desc: DescMethodUnary;
  readonly impl: (request: never, context: never) => unknown;
  /** The interceptors around the implementation. */
  readonly handler: CallHandler;
  readonly options: UniversalHandlerOptions;
  /** Compiled at the first call in the format: compiling all of them would slow the start. */
  binary: Serialization | undefined;
  json: Serialization | undefined;
  readonly protocols: { readonly [protocol in RpcProtocol]: boolean };
}

/** The handlers of an RPC. */
export interface Rpc {
  /** Connect's own handler. */
  readonly handler: UniversalHandler;
  /** What serves unary calls in its place; undefined for a streaming method. */
  readonly unary: UnaryMethod | undefined;
  /** The size limit of a request message, in bytes. */
  readonly readMaxBytes: number;
}

/** Routes, and Connect's options for them. */
export interface RpcOptions extends ConnectRouterOptions {
  readonly routes: (router: ConnectRouter) => void;
  /** Aborts when streams have to end; unary calls continue. Default: `shutdownSignal`, which ends both. */
  readonly streamsSignal?: AbortSignal;
}

/**
 * Collects the methods that routes register, with the options that Connect's Node adapter would apply.
 *
 * @throws TypeError for the option `requireConnectProtocolHeader`, which is not supported
 */
export function collectRpcs({ routes, streamsSignal, ...given }: RpcOptions): Rpc[] {
  // This default belongs to the adapter, not the router. `validateUniversalHandlerOptions` supplies all others.
  const base = { ...given, acceptCompression: given.acceptCompression ?? [...COMPRESSIONS] };
  // Makes the handlers of streams, and rejects invalid routes.
  const connectRouter = createConnectRouter(streamsSignal ? { ...base, shutdownSignal: streamsSignal } : base);
  const rpcs: Rpc[] = [];
  const add = ({ kind, method, impl }: MethodImplSpec, own: ConnectRouterOptions | undefined) => {
    const merged = { ...base, ...own };
    const options = validateUniversalHandlerOptions(merged);
    if (options.requireConnectProtocolHeader) throw new TypeError("requireConnectProtocolHeader is not supported");
    const { grpc, grpcWeb, connect } = merged;
    const protocols = { grpc: grpc !== false, "grpc-web": grpcWeb !== false, connect: connect !== false };
    const unary = kind === "unary" ? unaryMethod(method, { impl, options, protocols }) : undefined;
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

function unaryMethod(
  desc: DescMethodUnary,
  registered: Pick<UnaryMethod, "impl" | "options" | "protocols">,
): UnaryMethod {
  const handler = intercepted(registered.impl, registered.options.interceptors);
  return { ...registered, desc, handler, binary: undefined, json: undefined };
}
