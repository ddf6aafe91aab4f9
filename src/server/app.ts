import {
  CallQueue,
  type ClientOf,
  type Endpoint,
  type HttpResponse,
  headerValue,
  readEndpoint,
  type ServeOptions,
} from "@user-group-service/transport";
import type { ApiTokens } from "../auth/api-tokens.ts";
import type { Config } from "../config/config.ts";
import { MAX_CALLS, MAX_MESSAGE_BYTES, STREAMS } from "../domain/capacity.ts";
import { clientKey, connectionKey } from "../domain/client-address.ts";
import { sharedResult } from "../domain/shared-result.ts";
import { METRICS_KEPT_MS, METRICS_TYPE } from "../observability/exposition.ts";
import type { Sample } from "../observability/history.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import type { Metrics } from "../observability/metrics.ts";
import { startSampler } from "../observability/sampler.ts";
import type { Traces } from "../observability/traces/traces.ts";
import { errorResponse } from "../rest/json.ts";
import { legacyEndpoints } from "../rest/legacy.ts";
import { CachedFile } from "../rest/pages/cached-file.ts";
import { consoleEndpoints } from "../rest/pages/console.ts";
import { docsEndpoints } from "../rest/pages/docs.ts";
import { userEndpoint } from "../rest/user.ts";
import { viewerEndpoint, viewerSessionEndpoint } from "../rest/viewer.ts";
import { wellKnownEndpoints } from "../rest/well-known.ts";
import {
  ACCESS,
  type Authentication,
  authorization,
  callersOf,
  environmentsOf,
  isOpen,
  LIMIT_HEADERS,
} from "../rpc/access.ts";
import { CallContext, REQUEST_ID_HEADER, type Received } from "../rpc/call-context.ts";
import { CREDENTIAL_HEADERS, credentialCheck } from "../rpc/credentials.ts";
import { callInterceptor } from "../rpc/interceptors.ts";
import { observeRefusals } from "../rpc/refusal-errors.ts";
import { type RouteDeps, routes } from "../rpc/routes.ts";

interface AppDeps
  extends RouteDeps,
    Authentication,
    Pick<
      Config,
      | "corsOrigins"
      | "docs"
      | "legacyPaths"
      | "maxConnections"
      | "metricsPort"
      | "trustedProxies"
      | "viewerSessionMaxMs"
    > {
  readonly authenticator: ApiTokens;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly traces: Traces | undefined;
  /** Returns whether a failed call of an unauthenticated client gets a log line. */
  readonly mayLogUnknown: (code: string) => boolean;
  readonly confirmMissing: () => Promise<void>;
  /** Receives a sample of this worker's metrics every ten seconds. */
  readonly onSample: (sample: Sample) => void;
  readonly console: boolean;
  /** Aborts when a shutdown begins. All streams then end. */
  readonly shutdownSignal: AbortSignal;
}

const TRACE_HEADERS = ["traceparent", "tracestate"];

/** Makes the JSON decoder reject requests that are not valid UTF-8. The default decoder would replace invalid bytes. */
const JSON_OPTIONS: object = { textDecoder: new TextDecoder("utf-8", { fatal: true }) };

export function createApp(deps: AppDeps) {
  const { logger, metrics, sessions, shutdownSignal } = deps;
  // Create the counters with the value 0, so that a monitor detects their first increase.
  for (const method of ACCESS.keys())
    for (const protocol of ["grpc", "grpc-web", "connect"]) metrics.calls.add(method, protocol);
  const isCredential = credentialCheck(deps.authenticator);

  const callerEndpoints = new Map<string, Endpoint>();
  const callerPaths = {
    "/api/user": userEndpoint(),
    "/api/viewer": viewerEndpoint(),
    "/api/viewer/session": viewerSessionEndpoint(),
    ...(deps.legacyPaths && legacyEndpoints(deps.viewerSessionMaxMs)),
  };
  for (const [path, endpoint] of Object.entries(callerPaths)) {
    callerEndpoints.set(path, endpoint).set(`${path}/`, endpoint);
    for (const { rpc } of endpoint.methods.values()) if (rpc) metrics.calls.add(rpc, "rest");
  }
  // The API documentation needs no token, because developers of clients may read it before they have a token.
  if (deps.docs) for (const [path, endpoint] of Object.entries(docsEndpoints())) callerEndpoints.set(path, endpoint);
  // The endpoints for operators need no token. If METRICS_PORT is set, only that port serves these endpoints.
  const operatorEndpoints = new Map(Object.entries({ ...operations(deps), ...(deps.console && consoleEndpoints()) }));

  const common = {
    // If METRICS_PORT is not set, unauthenticated clients can read the metrics. In this case, the metrics must not name
    // environments.
    onRefused: observeRefusals(deps, deps.metricsPort === undefined ? undefined : environmentsOf(deps.authenticator)),
    httpError: errorResponse,
    onError: (error: unknown) => logger.error(errorFields(error), "request failed"),
  };
  const clientOf: ClientOf = (peer, headers) =>
    headers
      ? clientKey({ peer, forwardedFor: headerValue(headers, "x-forwarded-for") }, deps.trustedProxies)
      : connectionKey(peer, deps.trustedProxies);
  const limits = { maxConnections: deps.maxConnections, clientOf };
  const queue = new CallQueue({
    maxCalls: MAX_CALLS,
    callerOf: callersOf(deps.authenticator, clientOf),
    onWaited: (seconds) => metrics.waited.observe(seconds),
  });
  metrics.gauge({
    name: "ugs_queue_length",
    help: "Calls that wait in the queue of a busy worker",
    ofWorkers: "sum",
    read: () => [{ labels: {}, value: queue.length }],
  });
  const stopSampler = startSampler(metrics, { queueLength: () => queue.length, onSample: deps.onSample });
  const calls = {
    routes: routes(deps),
    authorize: authorization(deps),
    contextValues: (head: Received) => new CallContext(head, deps.trustedProxies),
    interceptors: [callInterceptor({ ...deps, isCredential })],
    readMaxBytes: MAX_MESSAGE_BYTES,
    jsonOptions: JSON_OPTIONS,
    streamsSignal: shutdownSignal,
    queue,
    isOpen,
    limits: { streams: STREAMS, ...limits },
  };
  const service: ServeOptions = {
    ...common,
    ...calls,
    endpoints: deps.metricsPort === undefined ? new Map([...callerEndpoints, ...operatorEndpoints]) : callerEndpoints,
    endpointAt: wellKnownEndpoints(sessions),
    cors: {
      origins: deps.corsOrigins,
      requestHeaders: [...CREDENTIAL_HEADERS, REQUEST_ID_HEADER, ...TRACE_HEADERS],
      responseHeaders: [REQUEST_ID_HEADER, "retry-after", ...LIMIT_HEADERS],
    },
  };
  // The console calls the RPCs on the port that serves the console, so this port needs no CORS.
  const operatorPort = {
    ...common,
    ...(deps.console ? calls : { routes: () => {}, limits }),
    endpoints: operatorEndpoints,
  };
  return { service, operations: operatorPort, stopSampler };
}

function operations({ readiness, isClosing, metrics }: Pick<AppDeps, "readiness" | "isClosing" | "metrics">) {
  const collected = sharedResult(METRICS_KEPT_MS, async () => {
    const text = await metrics.collect();
    return text === undefined ? undefined : new CachedFile(async () => Buffer.from(text));
  });
  return {
    "/healthz": readEndpoint(async () => text(200, "ok\n")),
    "/readyz": readEndpoint(async ({ target }) => {
      if (isClosing()) return text(503, "shutting down\n");
      const kind = new URLSearchParams(target.split("?")[1]).has("changes") ? "changes" : "reads";
      return (await readiness.is(kind)) ? text(200, "ok\n") : text(503, `${kind} fail\n`);
    }),
    "/metrics": readEndpoint(async ({ headers }) => {
      const file = await collected();
      if (!file) return text(503, "the metrics are incomplete: a worker did not answer\n");
      const { body, encoding } = await file.encodedFor(headers);
      const answer = text(200, body, METRICS_TYPE);
      answer.headers["vary"] = "accept-encoding";
      if (encoding) answer.headers["content-encoding"] = encoding;
      return answer;
    }),
  };
}

function text(status: number, body: string | Buffer, contentType = "text/plain; charset=utf-8"): HttpResponse {
  return { status, headers: { "content-type": contentType, "cache-control": "no-store" }, body };
}
