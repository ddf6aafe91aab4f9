import type { Authenticator } from "./auth/authenticator.ts";
import type { StoreProbe, UserGroupStore } from "./domain/store.ts";
import { errorResponse } from "./http/error-response.ts";
import { operations } from "./http/operations.ts";
import { MAX_CALLS, MAX_MESSAGE_BYTES, STREAMS } from "./limits.ts";
import { formatOf } from "./observability/exposition.ts";
import { errorFields, type Logger } from "./observability/log.ts";
import type { Metrics } from "./observability/metrics.ts";
import { userEndpoint } from "./rest/user-route.ts";
import { VERBS } from "./rest/verbs.ts";
import { authorization, authorizationInterceptor, isOpen, METHODS } from "./rpc/access.ts";
import { contextOf, type WireProtocol } from "./rpc/context.ts";
import { deadlineInterceptor } from "./rpc/interceptors.ts";
import {
  type Observers,
  observeFailure,
  observeInterceptor,
  prepareSeries,
  requestIdOf,
  startTimeOf,
} from "./rpc/observe.ts";
import { refusedError } from "./rpc/refusals.ts";
import { routes } from "./rpc/routes.ts";
import { SharedProbe } from "./rpc/shared-probe.ts";
import { validationInterceptor } from "./rpc/validation.ts";
import { COMPRESSIONS, type OnRefused, type ServeOptions } from "./transport/index.ts";

/** What the service depends on. */
export interface AppParts {
  readonly store: UserGroupStore;
  readonly probe: StoreProbe;
  readonly authenticator: Authenticator;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly corsOrigins: "*" | readonly string[];
  /** How long a rotated token stays valid by default, in milliseconds. */
  readonly rotationGraceMs: number;
  /** Aborts when the service begins to shut down; streams then end. */
  readonly shutdownSignal: AbortSignal;
  readonly isClosing: () => boolean;
  /** Whether server reflection is served. */
  readonly reflection: boolean;
  /** How many connections may be open at once. */
  readonly maxConnections: number;
  /** If set, health and metrics are served only on this port. */
  readonly metricsPort: number | undefined;
}

/** What the transport serves, without a port. */
export interface App {
  readonly service: ServeOptions;
  /** What is served on `METRICS_PORT`. */
  readonly operations: ServeOptions;
}

/** JSON requests that are not valid UTF-8 are refused; by default invalid bytes would be replaced. */
const JSON_OPTIONS: object = { textDecoder: new TextDecoder("utf-8", { fatal: true }) };

/** Assembles the service. */
export function createApp(parts: AppParts): App {
  const { logger, metrics, shutdownSignal } = parts;
  const observers: Observers = { logger, shutdownSignal, calls: (...of) => metrics.calls(...of) };
  prepareSeries(observers, METHODS, ["grpc", "grpc-web", "connect"]);
  prepareSeries(
    observers,
    [...VERBS.values()].map(({ method }) => method),
    ["rest"],
  );
  const probe = new SharedProbe(parts.probe);
  const authorize = authorization(parts.authenticator);
  const {
    alive,
    ready,
    metrics: exposed,
  } = operations({
    ...parts,
    probe,
    metrics: (accept) => metrics.expose(formatOf(accept)),
  });

  /*
   * What is served where: the RPCs at their own paths (rpc/routes.ts), to the callers that rpc/access.ts admits, and
   * these endpoints:
   */
  const user = userEndpoint();
  const restEndpoints = [
    ["/api/user", user],
    ["/api/user/", user],
  ] as const;
  const operatorEndpoints = [
    ["/healthz", alive],
    ["/readyz", ready],
    ["/metrics", exposed],
  ] as const;

  const common = {
    onRefused: refusalHandler(observers),
    httpError: (error: Parameters<typeof errorResponse>[0]) => errorResponse(error),
    onError: (error: unknown) => logger.error(errorFields(error), "request failed"),
  };
  const service: ServeOptions = {
    ...common,
    routes: routes({ ...parts, probe }),
    endpoints: new Map([...restEndpoints, ...(parts.metricsPort === undefined ? operatorEndpoints : [])]),
    authorize,
    contextValues: contextOf,
    interceptors: [
      // Outermost: observes every call, and converts every failure to the caller's error.
      observeInterceptor(observers),
      deadlineInterceptor(),
      // Before validation, so that callers without a token learn nothing about the rules.
      authorizationInterceptor(authorize),
      validationInterceptor(),
    ],
    cors: {
      origins: parts.corsOrigins,
      requestHeaders: ["authorization", "explo-authorization", "x-request-id"],
      responseHeaders: ["x-request-id", "retry-after"],
    },
    readMaxBytes: MAX_MESSAGE_BYTES,
    acceptCompression: [...COMPRESSIONS],
    jsonOptions: JSON_OPTIONS,
    streamsSignal: shutdownSignal,
    maxCalls: { max: MAX_CALLS, isExempt: isOpen },
    limits: { streams: STREAMS, maxConnections: parts.maxConnections },
  };
  return { service, operations: { ...common, routes: () => {}, endpoints: new Map(operatorEndpoints) } };
}

/** Counts and logs every request that is refused before it becomes a call, and makes the error for its caller. */
function refusalHandler(observers: Observers): OnRefused {
  return (refusal, request) => {
    const { method, protocolName, header, arrived } = request;
    const call = {
      method,
      protocol: (protocolName ?? "none") as WireProtocol | "none",
      requestId: requestIdOf(header),
      started: startTimeOf(arrived),
      // An unexpected error in authorization or an endpoint is a fault of the server.
      isRefused: refusal.kind !== "unauthorized" && refusal.kind !== "endpoint",
    };
    return observeFailure(observers, call, refusedError(refusal, request));
  };
}
