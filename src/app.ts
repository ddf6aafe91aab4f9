import type { IncomingMessage, ServerResponse } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import { Code, type ConnectError, type ConnectRouterOptions, type ContextValues } from "@connectrpc/connect";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import type { Authenticator } from "./auth/authenticator.ts";
import type { StoreProbe, UserGroupStore } from "./domain/store.ts";
import { errorFields, type Logger } from "./observability/log.ts";
import type { Metrics } from "./observability/metrics.ts";
import { errorResponse } from "./rest/errors.ts";
import { httpError } from "./rest/http-errors.ts";
import { isOperationMethod, operationNotAllowed, operations } from "./rest/operations.ts";
import { isUserRoute, pathNotFound, UserRoute, verbNotAllowed } from "./rest/user-route.ts";
import { VERBS } from "./rest/verbs.ts";
import { admission } from "./rpc/admission.ts";
import { kProtocol } from "./rpc/context.ts";
import { callError } from "./rpc/errors.ts";
import { authenticationInterceptor, deadlineInterceptor } from "./rpc/interceptors.ts";
import { observeFailure, observeInterceptor, requestIdOf } from "./rpc/observe.ts";
import { MAX_MESSAGE_BYTES, refusedError } from "./rpc/refused.ts";
import { isOpenService, routes } from "./rpc/routes.ts";
import { SharedProbe } from "./rpc/shared-probe.ts";
import { validationInterceptor } from "./rpc/validation.ts";
import { ConnectAdapter } from "./transport/adapter.ts";
import { type Admitted, admitted } from "./transport/admission.ts";
import { CallLimit } from "./transport/call-limit.ts";
import { Cors } from "./transport/cors.ts";
import type { Find } from "./transport/dispatch.ts";
import type { OnHttpError } from "./transport/http-errors.ts";
import { LeanContextValues } from "./transport/lean-context-values.ts";
import { type HeaderRecord, LeanHeaders } from "./transport/lean-headers.ts";
import { answerNow, protocolOf, refusalOf } from "./transport/refusals.ts";
import { requireStrictJson } from "./transport/strict-json.ts";
import { UnaryTransport } from "./transport/unary.ts";
import { asConnectError, pathOf, type Route } from "./transport/wire.ts";

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
  readonly find: Find;
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
 * within tenths of a second, well within REDIS_TIMEOUT; and it takes no more to be fully used while Redis takes 0.1 s.
 */
const MAX_CALLS = 1024;

/** Targets are visible ASCII (RFC 9112, 3.2); what else comes over HTTP/2 is one thing to one reader and another to the next. */
const PLAIN_TARGET = /^[\x21-\x7e]+$/;

/** A path that browsers may ask for as an RPC's, be there one or not. */
const RPC_PATH = /^\/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\/[A-Za-z_]\w*$/;

/** Content types that are an RPC's and nothing else's. */
const RPC_TYPE = /^application\/(?:grpc|connect\+)/i;

/** Puts the service together. */
export function createApp(parts: AppParts): App {
  const { logger, metrics, authenticator } = parts;
  const observers = { logger, observeCall: (call: Parameters<Metrics["observeCall"]>[0]) => metrics.observeCall(call) };
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
    acceptCompression: [compressionGzip, compressionBrotli],
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
    onRefused: (error, { method, requestHeader, contextValues }) => {
      const requestId = requestIdOf(requestHeader);
      const call = { method, contextValues, requestId, started: performance.now(), isRefused: true };
      return observeFailure(observers, call, refusedError(error, method.input));
    },
  });
  const userRoute = new UserRoute({
    onRefused: (error, { headers }) => refuse(error, headers),
    requireStrictJson,
    compressions: connect.acceptCompression,
  });
  const endpoints = operations({ ...parts, probe, metrics: () => metrics.expose() });
  const adapter = new ConnectAdapter({
    ...connect,
    admit,
    contextValues: rpcContext,
    // Calls that are no streams are finished; the unary transport is not told.
    shutdownSignal: parts.shutdownSignal,
    onMethod: (allowed, { method }, headers) => refuse(methodNotAllowed(allowed), headers, method),
    onContentType: ({ method }, headers) => refuse(unsupportedType(), headers, method),
    onError: (error) => logger.error(errorFields(error), "request failed"),
  });

  /** Counts and logs a request that is refused before it is a call. */
  function refuse(failure: ConnectError, headers: HeaderRecord, method?: DescMethod): ConnectError {
    const requestId = requestIdOf(new LeanHeaders(headers));
    const isRpc = method !== undefined || protocolOf(headers) !== "connect";
    const contextValues = isRpc ? rpcContext({ headers }) : undefined;
    return observeFailure(observers, { method, contextValues, requestId, started: performance.now() }, failure);
  }

  /** The REST shim: each verb is one RPC, and is let in as one. */
  function rest(httpMethod: string, headers: HeaderRecord): Route | Promise<Route> {
    const verb = VERBS.get(httpMethod);
    if (!verb) return answerNow(errorResponse(refuse(verbNotAllowed(httpMethod), headers), false));
    const letIn = (call: Admitted): Route => ({
      isTooLong: (_head, total) => userRoute.isTooLong(total),
      serve: (request) =>
        userRoute.serve(verb, request, (method, message) =>
          unary.call(method, message, {
            protocolName: "rest",
            source: request,
            header: call.header,
            contextValues: call.contextValues,
          }),
        ),
      end: () => call.end(),
    });
    const refuseCall = (reason: unknown) => answerNow(errorResponse(asConnectError(reason), false));
    try {
      const found = admitted(verb.method, "rest", headers, { admit, contextValues: restContext });
      return found instanceof Promise ? found.then(letIn, refuseCall) : letIn(found);
    } catch (reason) {
      return refuseCall(reason);
    }
  }

  /** The answer to a path that nothing serves, in the caller's protocol. */
  function nowhere(headers: HeaderRecord): Route {
    if (protocolOf(headers) === "connect") return answerNow(errorResponse(refuse(pathNotFound(), headers), false));
    return answerNow(refusalOf(headers, refuse(unknownMethod(), headers)));
  }

  const find: Find = (httpMethod, target, headers) => {
    if (!PLAIN_TARGET.test(target)) return answerNow(onHttpError(400, headers));
    const route = unary.route(httpMethod, target, headers);
    if (route) return withCors(route, headers);
    const path = pathOf(target);
    if (isUserRoute(path)) return rest(httpMethod, headers);
    const endpoint = endpoints.get(path);
    if (endpoint) {
      if (isOperationMethod(httpMethod)) return { serve: endpoint };
      return answerNow(errorResponse(refuse(operationNotAllowed(), headers), false));
    }
    const preflight = RPC_PATH.test(path) ? cors.preflight(httpMethod, headers) : undefined;
    if (preflight) return answerNow({ status: 204, headers: preflight, body: new Uint8Array(0) });
    if (adapter.has(path)) return withCors(adapter.refuse(httpMethod, path, headers), headers);
    return RPC_PATH.test(path) ? withCors(nowhere(headers), headers) : nowhere(headers);
  };

  const onHttpError: OnHttpError = (status, headers) => {
    const error = refuse(httpError(status), headers);
    return RPC_TYPE.test(String(headers["content-type"])) ? refusalOf(headers, error) : errorResponse(error, false);
  };

  /** Lets pages of other origins read the answer, where they may. */
  function withCors<R extends Route | undefined>(found: R | Promise<R>, headers: HeaderRecord): R | Promise<R> {
    const allowed = cors.headersFor(headers);
    if (!allowed) return found;
    const add = (route: R) => (route ? (new CorsRoute(route, allowed) as unknown as R) : route);
    return found instanceof Promise ? found.then(add) : add(found);
  }

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
  };
}

/** A route whose answer pages of other origins may read. */
class CorsRoute implements Route {
  readonly #route: Route;
  readonly #allowed: HeaderRecord;
  readonly isTooLong: Route["isTooLong"];

  constructor(route: Route, allowed: HeaderRecord) {
    this.#route = route;
    this.#allowed = allowed;
    this.isTooLong = route.isTooLong && ((head, total) => route.isTooLong?.(head, total) === true);
  }

  async serve(request: Parameters<Route["serve"]>[0]) {
    const response = await this.#route.serve(request);
    return { ...response, headers: { ...response.headers, ...this.#allowed } };
  }

  end(): void {
    this.#route.end?.();
  }
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

function rpcContext({ headers }: { readonly headers: HeaderRecord }): ContextValues {
  const values = new LeanContextValues();
  const protocol = protocolOf(headers);
  return protocol === "connect" ? values : values.set(kProtocol, protocol);
}

function restContext(): ContextValues {
  return new LeanContextValues().set(kProtocol, "rest");
}
