import {
  type ConnectRouter,
  type ConnectRouterOptions,
  type ContextValues,
  createConnectRouter,
} from "@connectrpc/connect";
import { createFetchHandler, type UniversalHandler } from "@connectrpc/connect/protocol";
import { type DispatchOptions, exchangeLimits } from "./dispatch.ts";
import { exchangeFetch, recordOfFetch, responseOf, targetOf } from "./fetch-io.ts";
import type { HeaderRecord } from "./lean-headers.ts";
import { OpenStreams } from "./open-streams.ts";
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
export interface FetchOptions
  extends Pick<DispatchOptions, "find" | "fallbackHeaders" | "onHttpError" | "arrivalTimeoutMs" | "streams"> {
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
  const limits = exchangeLimits(options);
  const streams = new OpenStreams(options.streams);

  /** Has one of Connect's handlers serve a request, whose answer may be a stream. */
  const stream = async (handler: FetchHandler, request: Request, headers: HeaderRecord): Promise<Response> => {
    const timeIsUp = new AbortController();
    const open = streams.enter(undefined, () => timeIsUp.abort());
    if (!open) return options.onHttpError ? responseOf(options.onHttpError(429, headers), request.method) : tooMany();
    streams.limitDeadline(headers);
    const limited = new Headers(request.headers);
    for (const name of ["grpc-timeout", "connect-timeout-ms"]) {
      if (headers[name] !== undefined) limited.set(name, String(headers[name]));
    }
    try {
      const response = await handler(new Request(request, { headers: limited }));
      if (response.body === null) {
        open.leave();
        return response;
      }
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      response.body
        .pipeTo(writable, { signal: timeIsUp.signal })
        .catch(() => {})
        .finally(open.leave);
      return new Response(readable, response);
    } catch (error) {
      open.leave();
      throw error;
    }
  };

  const serve: FetchHandler = async (request) => {
    const headers = recordOfFetch(request.headers);
    if (isGrpc(headers)) return noGrpc();
    const target = targetOf(request.url);
    const route = options.find(request.method, target, headers);
    if (route) return exchangeFetch(request, headers, route, limits);
    const handler = handlers.get(pathOf(target));
    const response = handler ? await stream(handler, request, headers) : new Response(null, { status: 404 });
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

function tooMany(): Response {
  return new Response(null, { status: 429 });
}

/** Connect's own handlers by path, for streams and for what the unary transport leaves to them. */
function connectHandlers({ routes, contextValues, ...options }: FetchConnectOptions): Map<string, FetchHandler> {
  const router = createConnectRouter({ ...options, grpc: false });
  routes(router);
  return new Map(
    router.handlers.map((handler) => {
      const withContext: typeof handler = Object.assign(
        (request: Parameters<UniversalHandler>[0]) =>
          handler({ ...request, contextValues: contextValues({ headers: recordOfFetch(request.header) }) }),
        handler,
      );
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
