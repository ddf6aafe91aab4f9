import {
  type ConnectRouter,
  type ConnectRouterOptions,
  type ContextValues,
  createConnectRouter,
} from "@connectrpc/connect";
import { createFetchHandler, type UniversalHandler } from "@connectrpc/connect/protocol";
import { capDeadline } from "./deadlines.ts";
import type { DispatchOptions } from "./dispatch.ts";
import { exchangeFetch, recordOfFetch, targetOf } from "./fetch-io.ts";
import type { HeaderRecord } from "./lean-headers.ts";
import { pathOf } from "./wire.ts";

/** What serves the requests of the fetch API. */
export type FetchHandler = (request: Request) => Promise<Response>;

/** Routes and options of Connect. */
export interface FetchConnectOptions extends ConnectRouterOptions {
  readonly routes: (router: ConnectRouter) => void;
  /** The context values of a request, by its headers. */
  readonly contextValues: (request: { readonly headers: HeaderRecord }) => ContextValues;
}

/** Where requests go. */
export interface FetchOptions extends Pick<DispatchOptions, "find" | "fallbackHeaders"> {
  /** Hears of a failure that nobody foresaw; its caller is told nothing of it. */
  readonly onError: (error: unknown) => void;
}

/** What serves requests, and what is under way. */
export interface FetchDispatch {
  readonly fetch: FetchHandler;
  /** Resolves once nothing is under way any more; new requests are served all the same. */
  readonly drain: () => Promise<void>;
}

/**
 * Sends each request of the fetch API to what serves it, as `dispatch` does for
 * a port. gRPC is answered with an error: it needs HTTP trailers, which the
 * fetch API lacks.
 */
export function fetchDispatch(options: FetchOptions, connect: FetchConnectOptions): FetchDispatch {
  const handlers = connectHandlers(connect);
  const underWay = new Set<Promise<unknown>>();

  const serve: FetchHandler = async (request) => {
    const headers = recordOfFetch(request.headers);
    if (isGrpc(headers)) return noGrpc();
    const target = targetOf(request.url);
    const route = options.find(request.method, target, headers);
    if (route) return exchangeFetch(request, headers, route);
    const handler = handlers.get(pathOf(target));
    const response = handler ? await handler(request) : new Response(null, { status: 404 });
    for (const [name, value] of Object.entries(options.fallbackHeaders(headers) ?? {})) {
      if (value !== undefined) response.headers.set(name, String(value));
    }
    return response;
  };

  return {
    fetch: (request) => {
      const answer = serve(request)
        .catch((error: unknown) => {
          // Nobody is left to read an answer.
          if (request.signal.aborted) return new Response(null, { status: 499 });
          options.onError(error);
          return new Response(null, { status: 500 });
        })
        .finally(() => underWay.delete(answer));
      underWay.add(answer);
      return answer;
    },
    drain: async () => {
      while (underWay.size > 0) await Promise.all(underWay);
    },
  };
}

/** Connect's own handlers by path, for streams and for what the unary transport leaves to them. */
function connectHandlers({ routes, contextValues, ...options }: FetchConnectOptions): Map<string, FetchHandler> {
  const router = createConnectRouter({ ...options, grpc: false });
  routes(router);
  return new Map(
    router.handlers.map((handler) => {
      const withContext: typeof handler = Object.assign((request: Parameters<UniversalHandler>[0]) => {
        const headers = recordOfFetch(request.header);
        capDeadline(headers);
        const header = new Headers(headers as { readonly [name: string]: string });
        return handler({ ...request, header, contextValues: contextValues({ headers }) });
      }, handler);
      return [handler.requestPath, createFetchHandler(withContext)];
    }),
  );
}

function isGrpc(headers: HeaderRecord): boolean {
  return /^application\/grpc(?:[+;]|$)/.test(String(headers["content-type"] ?? ""));
}

/** An answer that a gRPC client understands, for its status is in the header. */
function noGrpc(): Response {
  const message = "gRPC needs HTTP trailers, which this server cannot send; use gRPC-Web or Connect";
  return new Response(null, {
    status: 200,
    headers: {
      "content-type": "application/grpc",
      "grpc-status": "12",
      "grpc-message": encodeURIComponent(message).replaceAll("%20", " "),
    },
  });
}
