import type { IncomingMessage, ServerResponse } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import { Code, type ConnectError, type ConnectRouterOptions, type ContextValues } from "@connectrpc/connect";
import type { Authenticator } from "./auth/authenticator.ts";
import type { StoreProbe, UserGroupStore } from "./domain/store.ts";
import { formatOf } from "./observability/exposition.ts";
import { errorFields, type Logger } from "./observability/log.ts";
import type { Metrics } from "./observability/metrics.ts";
import { errorResponse } from "./rest/errors.ts";
import { httpError } from "./rest/http-errors.ts";
import { isOperationMethod, operationNotAllowed, operations } from "./rest/operations.ts";
import { isUserRoute, pathNotFound } from "./rest/user-route.ts";
import { VERBS } from "./rest/verbs.ts";
import { type RefusedCall, restCalls } from "./rest-calls.ts";
import { admission } from "./rpc/admission.ts";
import { kProtocol } from "./rpc/context.ts";
import { callError } from "./rpc/errors.ts";
import { authenticationInterceptor, deadlineInterceptor } from "./rpc/interceptors.ts";
import {
  type Observers,
  observeFailure,
  observeInterceptor,
  prepareSeries,
  requestIdOf,
  startOf,
} from "./rpc/observe.ts";
import { MAX_MESSAGE_BYTES, refusedError } from "./rpc/refused.ts";
import { isOpenService, routes, servedMethods } from "./rpc/routes.ts";
import { SharedProbe } from "./rpc/shared-probe.ts";
import { validationInterceptor } from "./rpc/validation.ts";
import { ConnectAdapter } from "./transport/http/adapter.ts";
import { Cors } from "./transport/http/cors.ts";
import type { Find } from "./transport/http/dispatch.ts";
import type { OnHttpError } from "./transport/http/http-errors.ts";
import { CallLimit } from "./transport/protocol/call-limit.ts";
import { COMPRESSIONS } from "./transport/protocol/compression.ts";
import { LeanContextValues } from "./transport/protocol/lean-context-values.ts";
import { type HeaderRecord, LeanHeaders } from "./transport/protocol/record-headers.ts";
import { answerNow, protocolOf, refusalOf } from "./transport/protocol/refusals.ts";
import { UnaryTransport } from "./transport/protocol/unary.ts";
import { pathOf, type Route } from "./transport/wire.ts";

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
  /** Whether server reflection is served. */
  readonly reflection: boolean;
  /** When it is set, what serves health and metrics listens on that port, and `find` does not know them. */
  readonly metricsPort: number | undefined;
}

/** The service without a port: what serves each request. */
export interface App {
  /** What serves a request; undefined for those of Connect's adapter. */
  readonly find: Find;
  /** What serves a request to the port of health and metrics. */
  readonly findOperation: (httpMethod: string, target: string, headers: HeaderRecord) => Route;
  /** Connect's adapter, for streams. */
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

/**
 * How many calls may be under way. A worker answers several thousand a second, so that the last of as many is answered
 * in about half a second; fewer would be less than one turn of the event loop finds when a flood of calls comes, and the
 * worker would spend its time on refusing.
 */
const MAX_CALLS = 4096;

/** Targets are visible ASCII (RFC 9112, 3.2); what else comes over HTTP/2 is one thing to one reader and another to the next. */
const PLAIN_TARGET = /^[\x21-\x7e]+$/;

/** A path that browsers may ask for as an RPC's, be there one or not. */
const RPC_PATH = /^\/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\/[A-Za-z_]\w*$/;

/** Content types that are an RPC's and nothing else's. */
const RPC_TYPE = /^application\/(?:grpc|connect\+)/i;

/** Puts the service together. */
export function createApp(parts: AppParts): App {
  const { logger, metrics, authenticator, shutdownSignal } = parts;
  const observers: Observers = { logger, shutdownSignal, calls: (...of) => metrics.calls(...of) };
  prepareSeries(observers, servedMethods(), ["grpc", "grpc-web", "connect"]);
  const restMethods = [...VERBS.values()].map(({ method }) => method);
  prepareSeries(observers, restMethods, ["rest"]);
  const probe = new SharedProbe(parts.probe);
  const admit = admission({ authenticator, isOpen: isOpenService, limit: new CallLimit(MAX_CALLS), observers });
  const connect = {
    routes: routes({ ...parts, probe }),
    interceptors: [
      // Sees every call, and makes every failure what the caller sees.
      observeInterceptor(observers),
      deadlineInterceptor(),
      // Before validation: who has no token learns nothing of the rules.
      authenticationInterceptor(authenticator, isOpenService),
      validationInterceptor(),
    ],
    readMaxBytes: MAX_MESSAGE_BYTES,
    acceptCompression: [...COMPRESSIONS],
    jsonOptions: JSON_OPTIONS,
  };
  const cors = new Cors({
    origins: parts.corsOrigins,
    requestHeaders: ["authorization", "explo-authorization", "x-request-id"],
    responseHeaders: ["x-request-id", "retry-after"],
  });
  const unary = new UnaryTransport({
    ...connect,
    admit,
    contextValues: rpcContext,
    onRefused: (error, { method, requestHeader, contextValues, arrived }) => {
      const requestId = requestIdOf(requestHeader);
      const call = { method, contextValues, requestId, started: startOf(arrived), isRefused: true };
      return observeFailure(observers, call, refusedError(error, method.input));
    },
  });
  const rest = restCalls({ admit, unary, refuse, compressions: connect.acceptCompression });
  const endpoints = operations({ ...parts, probe, metrics: (accept) => metrics.expose(formatOf(accept)) });
  const publicEndpoints: typeof endpoints = parts.metricsPort === undefined ? endpoints : new Map();
  const adapter = new ConnectAdapter({
    ...connect,
    admit,
    contextValues: rpcContext,
    // Calls that are no streams are finished; the unary transport is not told.
    shutdownSignal,
    onMethod: (allowed, { method }, headers) => refuse(methodNotAllowed(allowed), headers, rpcOf(headers, method)),
    onContentType: ({ method }, headers) => refuse(unsupportedType(), headers, rpcOf(headers, method)),
    onError: (error) => logger.error(errorFields(error), "request failed"),
  });

  /** Counts and logs a request that is refused before it is a call; without context values it is of no protocol of calls. */
  function refuse(
    failure: ConnectError,
    headers: HeaderRecord,
    { method, contextValues, arrived }: RefusedCall = {},
  ): ConnectError {
    const requestId = requestIdOf(new LeanHeaders(headers));
    return observeFailure(observers, { method, contextValues, requestId, started: startOf(arrived) }, failure);
  }

  /** The answer to a path that nothing serves, in the caller's protocol. */
  function nowhere(path: string, headers: HeaderRecord): Route {
    const of = RPC_PATH.test(path) ? rpcOf(headers, undefined) : {};
    if (protocolOf(headers) === "connect") return answerNow(errorResponse(refuse(pathNotFound(), headers, of), false));
    return answerNow(refusalOf(headers, refuse(unknownMethod(), headers, of)));
  }

  /** An endpoint for operators. */
  function operation(endpoint: Route["serve"], httpMethod: string, headers: HeaderRecord): Route {
    if (isOperationMethod(httpMethod)) return { serve: endpoint };
    return answerNow(errorResponse(refuse(operationNotAllowed(), headers), false));
  }

  const find: Find = (httpMethod, target, headers) => {
    if (!PLAIN_TARGET.test(target)) return answerNow(onHttpError(400, headers));
    const call = unary.route(httpMethod, target, headers);
    if (call) return cors.readable(call, headers);
    const path = pathOf(target);
    if (isUserRoute(path)) return rest(httpMethod, headers);
    const endpoint = publicEndpoints.get(path);
    if (endpoint) return operation(endpoint, httpMethod, headers);
    const preflight = RPC_PATH.test(path) ? cors.preflight(httpMethod, headers) : undefined;
    if (preflight) return answerNow({ status: 204, headers: preflight, body: new Uint8Array(0) });
    if (adapter.has(path)) return cors.readable(adapter.refuse(httpMethod, path, headers), headers);
    const route = nowhere(path, headers);
    return RPC_PATH.test(path) ? cors.readable(route, headers) : route;
  };

  const onHttpError: OnHttpError = (status, headers) => {
    const error = refuse(httpError(status), headers);
    return RPC_TYPE.test(String(headers["content-type"])) ? refusalOf(headers, error) : errorResponse(error, false);
  };

  return {
    connect: {
      ...connect,
      shutdownSignal: parts.shutdownSignal,
      contextValues: ({ headers }) => adapter.contextValues(headers) ?? rpcContext({ headers }),
    },
    cors,
    fallback: (req, res) => adapter.serve(req, res),
    onHttpError,
    find,
    findOperation: (httpMethod, target, headers) => {
      const path = pathOf(target);
      const endpoint = endpoints.get(path);
      return endpoint ? operation(endpoint, httpMethod, headers) : nowhere(path, headers);
    },
  };
}

function methodNotAllowed(allowed: readonly string[]): ConnectError {
  const list = [...new Set(allowed)].sort().join(", ");
  const error = callError(Code.Unimplemented, `this RPC has the HTTP methods ${list}`, {
    reason: "METHOD_NOT_ALLOWED",
  });
  error.metadata.set("allow", list);
  return error;
}

function unsupportedType(): ConnectError {
  const message = "the Content-Type must be that of Connect, such as application/json, of gRPC or of gRPC-Web";
  return callError(Code.InvalidArgument, message, { reason: "UNSUPPORTED_MEDIA_TYPE" });
}

function unknownMethod(): ConnectError {
  return callError(Code.Unimplemented, "this server has no such method", { reason: "UNIMPLEMENTED" });
}

/** What is observed of a request for an RPC that is refused before it is a call. */
function rpcOf(headers: HeaderRecord, method: DescMethod | undefined) {
  return { method, contextValues: rpcContext({ headers }) };
}

function rpcContext({ headers }: { readonly headers: HeaderRecord }): ContextValues {
  const values = new LeanContextValues();
  const protocol = protocolOf(headers);
  return protocol === "connect" ? values : values.set(kProtocol, protocol);
}
