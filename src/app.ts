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
import { contextOf } from "./rpc/context.ts";
import { deadlineInterceptor } from "./rpc/interceptors.ts";
import { type Observers, observeInterceptor, observeRefusals, prepareSeries } from "./rpc/observe.ts";
import { routes } from "./rpc/routes.ts";
import { SharedProbe } from "./rpc/shared-probe.ts";
import { validationInterceptor } from "./rpc/validation.ts";
import { COMPRESSIONS, type Endpoint, type ServeOptions } from "./transport/index.ts";

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
  /** How many connections may be open. */
  readonly maxConnections: number;
  /** When it is set, health and metrics are served on that port alone. */
  readonly metricsPort: number | undefined;
}

/** The service without a port: what is served, for the transport. */
export interface App {
  readonly service: ServeOptions;
  /** What is served on `METRICS_PORT`. */
  readonly operations: ServeOptions;
}

/** The decoder of JSON requests: bytes that are not UTF-8 are refused, not replaced. */
const JSON_OPTIONS: object = { textDecoder: new TextDecoder("utf-8", { fatal: true }) };

/** What is served at a path beside the RPCs. */
interface Served {
  readonly path: string;
  /** Callers bear an API token. Operators need none, but may have a port of their own: METRICS_PORT. */
  readonly to: "callers" | "operators";
  readonly by: Endpoint;
}

/** Puts the service together. */
export function createApp(parts: AppParts): App {
  const { logger, metrics, shutdownSignal } = parts;
  const observers: Observers = { logger, shutdownSignal, calls: (...of) => metrics.calls(...of) };
  prepareSeries(observers, METHODS, ["grpc", "grpc-web", "connect"]);
  const restMethods = [...VERBS.values()].map(({ method }) => method);
  prepareSeries(observers, restMethods, ["rest"]);
  const probe = new SharedProbe(parts.probe);
  const authorize = authorization(parts.authenticator);
  const { health, readiness, exposition } = operations({
    ...parts,
    probe,
    metrics: (accept) => metrics.expose(formatOf(accept)),
  });
  const user = userEndpoint();

  // The RPCs are served at their own paths: rpc/routes.ts says by what, and rpc/access.ts to whom. Beside them:
  const served: readonly Served[] = [
    { path: "/api/user", to: "callers", by: user },
    { path: "/api/user/", to: "callers", by: user },
    { path: "/healthz", to: "operators", by: health },
    { path: "/readyz", to: "operators", by: readiness },
    { path: "/metrics", to: "operators", by: exposition },
  ];
  const endpointsFor = (...audience: Served["to"][]) =>
    new Map(served.flatMap(({ path, to, by }) => (audience.includes(to) ? [[path, by] as const] : [])));

  const common = {
    onRefused: observeRefusals(observers),
    httpError: (error: Parameters<typeof errorResponse>[0]) => errorResponse(error),
    onError: (error: unknown) => logger.error(errorFields(error), "request failed"),
  };
  const service: ServeOptions = {
    ...common,
    routes: routes({ ...parts, probe }),
    endpoints: parts.metricsPort === undefined ? endpointsFor("callers", "operators") : endpointsFor("callers"),
    authorize,
    contextValues: contextOf,
    interceptors: [
      // Sees every call, and makes every failure what the caller sees.
      observeInterceptor(observers),
      deadlineInterceptor(),
      // Before validation: who has no token learns nothing of the rules.
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
  return { service, operations: { ...common, routes: () => {}, endpoints: endpointsFor("operators") } };
}
