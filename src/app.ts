import type { IncomingMessage, ServerResponse } from "node:http";
import type { ConnectRouterOptions, ContextValues } from "@connectrpc/connect";
import { compressionBrotli, compressionGzip, connectNodeAdapter } from "@connectrpc/connect-node";
import type { Authenticator } from "./auth/authenticator.ts";
import type { StoreProbe, UserGroupStore } from "./domain/store.ts";
import type { Logger } from "./observability/log.ts";
import type { Metrics } from "./observability/metrics.ts";
import { errorResponse } from "./rest/errors.ts";
import { httpError } from "./rest/http-errors.ts";
import { isOperationMethod, operationNotAllowed, operations } from "./rest/operations.ts";
import { isUserRoute, pathNotFound, UserRoute } from "./rest/user-route.ts";
import { kProtocol, type WireProtocol } from "./rpc/context.ts";
import { authenticationInterceptor, deadlineInterceptor } from "./rpc/interceptors.ts";
import { observeFailure, observeInterceptor, requestIdOf } from "./rpc/observe.ts";
import { MAX_MESSAGE_BYTES, refusedError } from "./rpc/refused.ts";
import { isOpenService, routes } from "./rpc/routes.ts";
import { SharedProbe } from "./rpc/shared-probe.ts";
import { validationInterceptor } from "./rpc/validation.ts";
import { Cors } from "./transport/cors.ts";
import { capDeadline } from "./transport/deadlines.ts";
import type { OnHttpError } from "./transport/http-errors.ts";
import { LeanContextValues } from "./transport/lean-context-values.ts";
import { type HeaderRecord, LeanHeaders } from "./transport/lean-headers.ts";
import { UnaryTransport } from "./transport/unary.ts";
import { pathOf, type Route, type WireRequest } from "./transport/wire.ts";

/** What the service is made of. */
export interface AppParts {
  readonly store: UserGroupStore;
  readonly probe: StoreProbe;
  readonly authenticator: Authenticator;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly corsOrigins: "*" | readonly string[];
  /** In milliseconds. */
  readonly rotationGraceMs: number;
  /** Aborts when the service begins to close: streams end. */
  readonly shutdownSignal: AbortSignal;
  readonly isClosing: () => boolean;
}

/** The service without a port: what serves each request. */
export interface App {
  /** What serves a request; undefined for those of Connect's adapter. */
  readonly find: (httpMethod: string, target: string, headers: HeaderRecord) => Route | undefined;
  /** Connect's adapter, for streams and for what the unary transport does not know. */
  readonly fallback: (req: IncomingMessage, res: ServerResponse) => void;
  /** The answer to what is refused before it is a request, by its HTTP status. */
  readonly onHttpError: OnHttpError;
  readonly cors: Cors;
  /** Routes and options, for other adapters of Connect. */
  readonly connect: ConnectRouterOptions & {
    readonly routes: ReturnType<typeof routes>;
    readonly contextValues: (request: { readonly headers: HeaderRecord }) => ContextValues;
  };
}

/** The decoder of JSON requests: bytes that are not UTF-8 are refused, not replaced. */
const JSON_OPTIONS: object = { textDecoder: new TextDecoder("utf-8", { fatal: true }) };

/** Puts the service together. */
export function createApp(parts: AppParts): App {
  const { logger, metrics } = parts;
  const observers = { logger, observeCall: (call: Parameters<Metrics["observeCall"]>[0]) => metrics.observeCall(call) };
  const probe = new SharedProbe(parts.probe);
  const connect = {
    routes: routes({ ...parts, probe }),
    interceptors: [
      // Sees every call, and makes every failure what the caller sees.
      observeInterceptor(observers),
      deadlineInterceptor(),
      // Before validation: who has no token learns nothing of the rules.
      authenticationInterceptor(parts.authenticator, isOpenService),
      validationInterceptor(),
    ],
    readMaxBytes: MAX_MESSAGE_BYTES,
    acceptCompression: [compressionGzip, compressionBrotli],
    jsonOptions: JSON_OPTIONS,
  };
  const cors = new Cors({
    origins: parts.corsOrigins,
    requestHeaders: ["authorization", "explo-authorization", "x-request-id"],
    responseHeaders: ["x-request-id"],
  });
  const unary = new UnaryTransport({
    ...connect,
    contextValues: protocolContext,
    onRefused: (error, { method, requestHeader, contextValues }) => {
      const requestId = requestIdOf(requestHeader);
      const call = { method, contextValues, requestId, started: performance.now(), isRefused: true };
      return observeFailure(observers, call, refusedError(error, method.input));
    },
  });
  const userRoute = new UserRoute<WireRequest>({
    call: (method, message, request) =>
      unary.call(method, message, {
        protocolName: "rest",
        source: request,
        header: new LeanHeaders(request.headers),
        contextValues: new LeanContextValues().set(kProtocol, "rest"),
      }),
    onRefused: (error, { headers }) => refuse(error, headers),
    compressions: connect.acceptCompression,
  });
  const rest: Route = {
    isTooLong: (_head, total) => userRoute.isTooLong(total),
    serve: (request) => userRoute.serve(request),
  };
  const endpoints = operations({ ...parts, probe, metrics: () => metrics.expose() });

  function refuse(error: Parameters<typeof errorResponse>[0], headers: HeaderRecord) {
    const requestId = requestIdOf(new LeanHeaders(headers));
    return observeFailure(
      observers,
      { method: undefined, contextValues: undefined, requestId, started: performance.now() },
      error,
    );
  }

  /** The answer to a path that nothing serves, in the caller's protocol. */
  const nowhere = plain(async ({ headers }) => {
    const error = refuse(pathNotFound(), headers);
    const contentType = String(headers["content-type"] ?? "");
    if (!contentType.startsWith("application/grpc")) return errorResponse(error, false);
    const status = { "content-type": contentType, "grpc-status": "12", "grpc-message": "unknown%20method" };
    return { status: 200, headers: status, body: new Uint8Array(0) };
  });
  const notAllowed = plain(async ({ headers }) => errorResponse(refuse(operationNotAllowed(), headers), false));
  const connectPaths = new Set<string>();
  const adapter = connectNodeAdapter({
    ...connect,
    // Calls that are no streams are finished; the unary transport is not told.
    shutdownSignal: parts.shutdownSignal,
    routes: (router) => {
      connect.routes(router);
      for (const { requestPath } of router.handlers) connectPaths.add(requestPath);
    },
    contextValues: ({ headers }) => protocolContext({ headers: headers as HeaderRecord }),
  }) as App["fallback"];
  const fallback: App["fallback"] = (req, res) => {
    capDeadline(req.headers as HeaderRecord);
    adapter(req, res);
  };

  return {
    connect: {
      ...connect,
      shutdownSignal: parts.shutdownSignal,
      contextValues: protocolContext,
    },
    cors,
    fallback,
    onHttpError: (status, headers) => errorResponse(refuse(httpError(status), headers), false),
    find: (httpMethod, target, headers) => {
      const route = unary.route(httpMethod, target, headers);
      if (route) return headers["origin"] === undefined ? route : withCors(route, cors, headers);
      const path = pathOf(target);
      if (isUserRoute(path)) return rest;
      const endpoint = endpoints.get(path);
      if (endpoint) return isOperationMethod(httpMethod) ? plain(endpoint) : notAllowed;
      if (!connectPaths.has(path)) return nowhere;
      const preflight = cors.preflight(httpMethod, headers);
      return preflight && plain(async () => ({ status: 204, headers: preflight, body: new Uint8Array(0) }));
    },
  };
}

/** A route whose answer does not depend on the body. */
function plain(serve: Route["serve"]): Route {
  return { isTooLong: () => true, serve };
}

function withCors({ isTooLong, serve }: Route, cors: Cors, headers: HeaderRecord): Route {
  const allowed = cors.headersFor(headers);
  return {
    isTooLong,
    serve: async (request) => {
      const response = await serve(request);
      return { ...response, headers: { ...response.headers, ...allowed } };
    },
  };
}

function protocolContext({ headers }: { readonly headers: HeaderRecord }): ContextValues {
  const values = new LeanContextValues();
  const protocol = protocolOf(String(headers["content-type"] ?? ""));
  return protocol === "connect" ? values : values.set(kProtocol, protocol);
}

function protocolOf(contentType: string): WireProtocol {
  if (contentType.startsWith("application/grpc-web")) return "grpc-web";
  return contentType.startsWith("application/grpc") ? "grpc" : "connect";
}
