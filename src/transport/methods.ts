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
  createMethodSerializationLookup,
  createMethodUrl,
  type UniversalHandlerOptions,
  validateUniversalHandlerOptions,
} from "@connectrpc/connect/protocol";

type Serialization = ReturnType<typeof createMethodSerializationLookup>;

/** A unary method with its implementation and the options it is served with. */
export interface UnaryMethod {
  readonly desc: DescMethodUnary;
  readonly impl: (request: never, context: never) => unknown;
  /** Path of its requests, such as `/package.Service/Method`. */
  readonly path: string;
  readonly options: UniversalHandlerOptions;
  readonly serialization: Serialization;
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
  return {
    desc,
    impl,
    path: createMethodUrl("/", desc),
    options,
    serialization: createMethodSerializationLookup(desc, options.binaryOptions, options.jsonOptions, options),
    protocols: { grpc: given.grpc !== false, grpcWeb: given.grpcWeb !== false, connect: given.connect !== false },
  };
}
