import {
  type ConnectRouter,
  type ConnectRouterOptions,
  type ContextValues,
  createConnectRouter,
} from "@connectrpc/connect";
import { universalServerRequestFromFetch, universalServerResponseToFetch } from "@connectrpc/connect/protocol";
import { capDeadline } from "../protocol/deadlines.ts";
import { cutQuotedFields } from "../protocol/quoted-fields.ts";
import type { HeaderRecord } from "../protocol/record-headers.ts";
import { withWebText } from "../protocol/web-text.ts";
import { pathOf } from "../wire.ts";
import { type DispatchOptions, exchangeLimits } from "./dispatch.ts";
import { exchangeFetch, recordOfFetch, responseOf, targetOf } from "./fetch-io.ts";
import { OpenStreams } from "./open-streams.ts";

/** What serves the requests of the fetch API. */
export type FetchHandler = (request: Request) => Promise<Response>;

/** Routes and options of Connect. */
export interface FetchConnectOptions extends ConnectRouterOptions {
  readonly routes: (router: ConnectRouter) => void;
  /** The context values of a request, by its headers: the very record that `find` was given. */
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
  const stream = async (handler: HandleFetch, request: Request, headers: HeaderRecord): Promise<Response> => {
    const timeIsUp = new AbortController();
    const open = streams.enter(undefined, () => timeIsUp.abort());
    if (!open) return options.onHttpError ? responseOf(options.onHttpError(429, headers), request.method) : tooMany();
    streams.limitDeadline(headers);
    try {
      const response = await handler(request, headers);
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
    const found = options.find(request.method, target, headers);
    const route = found instanceof Promise ? await found : found;
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

type HandleFetch = (request: Request, headers: HeaderRecord) => Promise<Response>;

function tooMany(): Response {
  return new Response(null, { status: 429 });
}

/** Connect's own handlers by path, for streams. */
function connectHandlers({ routes, contextValues, ...options }: FetchConnectOptions): Map<string, HandleFetch> {
  const router = createConnectRouter({ ...options, grpc: false });
  routes(router);
  return new Map(
    router.handlers.map((handler): [string, HandleFetch] => {
      const serve = withWebText(handler);
      return [
        handler.requestPath,
        async (request, headers) => {
          const universal = universalServerRequestFromFetch(request, {});
          capDeadline(headers);
          const header = new Headers(headers as { readonly [name: string]: string });
          cutQuotedFields(header.get.bind(header), header.set.bind(header));
          const response = await serve({ ...universal, header, contextValues: contextValues({ headers }) });
          return universalServerResponseToFetch(response);
        },
      ];
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
