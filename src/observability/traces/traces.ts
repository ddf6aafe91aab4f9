import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Attributes,
  type Context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { setGlobalErrorHandler, W3CTraceContextPropagator } from "@opentelemetry/core";
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import { Collector, type CollectorTls, type OnLost } from "./collector.ts";

const CALLERS_PER_SECOND = 1000;

/**
 * The maximum number of spans of unauthenticated calls per second. The limit leaves room in the queue for the spans of
 * authenticated calls.
 */
const UNAUTHENTICATED_PER_SECOND = 10;

/** The maximum number of round-trip spans of one call. Without this limit, an import would have thousands of spans. */
const MAX_ROUND_TRIPS = 64;

/** The data of a call that is known when the call starts. No field may contain a secret. */
export interface CallStart {
  /** The full name of the service, such as `usergroup.v1.UserGroupService`. */
  readonly service: string;
  readonly method: string;
  readonly protocol: string;
  /** The id of the API token. Undefined if the caller is not authenticated. */
  readonly apiTokenId: string | undefined;
  /** The environment of the API token, such as `acme/Customer`. Undefined if the token has no environment. */
  readonly environment: string | undefined;
  /** The start time, in milliseconds since 1970. Default: now. */
  readonly started?: number | undefined;
  /** The trace context of the caller (https://www.w3.org/TR/trace-context/). A malformed context is ignored. */
  readonly traceparent: string | null;
  readonly tracestate: string | null;
}

interface CallFailure {
  readonly code: number;
  /** The name of the Connect code, such as `not_found`. */
  readonly codeName: string;
}

interface TracedRoundTrip {
  readonly operation: string;
  readonly seconds: number;
  readonly failed: boolean;
}

/**
 * Limits the number of spans per second. A caller can request a trace with a header. Without this limit, callers could
 * make the service trace all their calls.
 */
class SpanRate {
  readonly #perSecond: number;
  #left: number;
  #since = performance.now();

  /** @param perSecond the maximum number of spans per second. A burst also has at most this number of spans */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
    this.#left = perSecond;
  }

  /** Counts a span. @returns false if the span exceeds the rate */
  take(): boolean {
    const now = performance.now();
    this.#left = Math.min(this.#perSecond, this.#left + ((now - this.#since) / 1000) * this.#perSecond);
    this.#since = now;
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}

const currentCall = new AsyncLocalStorage<CallTrace>();

interface TracesOptions {
  readonly version: string;
  readonly tls: CollectorTls;
  readonly onLost: OnLost;
  /** Called with each fault that OpenTelemetry finds in its environment variables. */
  readonly onFault: (message: string) => void;
}

/** The traces of a process. OpenTelemetry reads its settings from the environment variables `OTEL_*`. */
export class Traces {
  readonly #provider: BasicTracerProvider;
  readonly #tracer: Tracer;
  readonly #collector: Collector;
  readonly #callers = new SpanRate(CALLERS_PER_SECOND);
  readonly #unauthenticated = new SpanRate(UNAUTHENTICATED_PER_SECOND);
  readonly #onLost: OnLost;

  constructor({ version, tls, onLost, onFault }: TracesOptions) {
    // Ignore errors here, because `Collector` reports failed exports.
    setGlobalErrorHandler(() => {});
    const ignore = () => {};
    // OpenTelemetry drops malformed resource attributes, and reports this fault only at the level debug.
    const debug = (message: string) =>
      message.startsWith("EnvDetector failed") && onFault(`OTEL_RESOURCE_ATTRIBUTES: ${message}`);
    const reporting = { error: onFault, warn: onFault, info: ignore, debug, verbose: ignore };
    diag.setLogger(reporting, { logLevel: DiagLogLevel.DEBUG, suppressOverrideMessage: true });
    this.#onLost = onLost;
    this.#collector = new Collector(tls, onLost);
    this.#provider = new BasicTracerProvider({
      resource: defaultResource()
        .merge(resourceFromAttributes({ "service.name": SERVICE, "service.version": version }))
        .merge(detectResources({ detectors: [envDetector] })),
      spanProcessors: [this.#collector],
    });
    this.#tracer = this.#provider.getTracer(SERVICE, version);
    diag.disable();
  }

  useTls(tls: CollectorTls): void {
    this.#collector.useTls(tls);
  }

  /**
   * The call to which the running code belongs. Undefined if the code belongs to no call, or the call is not sampled.
   */
  get current(): CallTrace | undefined {
    return currentCall.getStore();
  }

  /** Begins the span of a call. Returns undefined if the call is not sampled, or if its span exceeds the rate limit. */
  begin(start: CallStart): CallTrace | undefined {
    const { service, method, protocol, environment, apiTokenId, traceparent, started = Date.now() } = start;
    const parent = traceparent === null ? ROOT_CONTEXT : PROPAGATOR.extract(ROOT_CONTEXT, start, HEADERS);
    const attributes: Attributes = { "rpc.system": SYSTEMS[protocol], "rpc.service": service, "rpc.method": method };
    if (environment !== undefined) attributes["ugs.environment"] = environment;
    if (apiTokenId !== undefined) attributes["ugs.api_token_id"] = apiTokenId;
    const options = { kind: SpanKind.SERVER, attributes, startTime: started };
    const span = this.#tracer.startSpan(`${service}/${method}`, options, parent);
    if (!span.isRecording()) return undefined;
    if (!this.#take(apiTokenId === undefined ? this.#unauthenticated : this.#callers)) return undefined;
    return new CallTrace(span, { tracer: this.#tracer, protocol, mayAdd: () => this.#take(this.#callers) });
  }

  #take(rate: SpanRate): boolean {
    const isTaken = rate.take();
    if (!isTaken) this.#onLost("rate", 1);
    return isTaken;
  }

  /** Sends the remaining spans for up to two seconds. Never rejects. */
  close(): Promise<void> {
    return this.#provider.shutdown();
  }
}

export class CallTrace {
  /** The trace id: 32 hexadecimal digits. */
  readonly traceId: string;
  /** The span id: 16 hexadecimal digits. */
  readonly spanId: string;
  readonly #span: Span;
  readonly #tracer: Tracer;
  readonly #mayAdd: () => boolean;
  readonly #isGrpc: boolean;
  readonly #context: Context;
  /** `Date.now() - performance.now()` at the start of the call. It never changes, so a clock change affects no span. */
  readonly #clockOffset = Date.now() - performance.now();
  #roundTrips = 0;

  constructor(
    span: Span,
    {
      tracer,
      protocol,
      mayAdd,
    }: { readonly tracer: Tracer; readonly protocol: string; readonly mayAdd: () => boolean },
  ) {
    ({ traceId: this.traceId, spanId: this.spanId } = span.spanContext());
    this.#span = span;
    this.#tracer = tracer;
    this.#mayAdd = mayAdd;
    this.#isGrpc = SYSTEMS[protocol] === "grpc";
    this.#context = trace.setSpan(ROOT_CONTEXT, span);
  }

  /** Runs a function of this call. In the function and its continuations, `Traces.current` returns this call. */
  run<T>(code: () => T): T {
    return currentCall.run(this, code);
  }

  /** Adds a span for a round trip that has just ended. The span contains no data of the request or response. */
  readonly roundTrip = ({ operation, seconds, failed }: TracedRoundTrip): void => {
    // After the deadline, the span of the call has ended, but the code of the call may still run. In this case, add
    // no span.
    if (!this.#span.isRecording() || ++this.#roundTrips > MAX_ROUND_TRIPS || !this.#mayAdd()) return;
    const end = this.#clockOffset + performance.now();
    const attributes = { "db.system.name": "redis", "db.operation.name": operation };
    const options = { kind: SpanKind.CLIENT, attributes, startTime: end - seconds * 1000 };
    const span = this.#tracer.startSpan(`redis ${operation}`, options, this.#context);
    if (failed) span.setAttribute("error.type", "_OTHER").setStatus({ code: SpanStatusCode.ERROR });
    span.end(end);
  };

  end(failure: CallFailure | undefined): void {
    const span = this.#span;
    if (this.#isGrpc) span.setAttribute("rpc.grpc.status_code", failure?.code ?? 0);
    if (failure) {
      const { code, codeName } = failure;
      if (!this.#isGrpc) span.setAttribute("rpc.connect_rpc.error_code", codeName);
      span.setAttribute("error.type", codeName);
      if (SERVER_FAULTS.has(code)) span.setStatus({ code: SpanStatusCode.ERROR });
    }
    if (this.#roundTrips > MAX_ROUND_TRIPS) span.setAttribute("ugs.redis.round_trips", this.#roundTrips);
    span.end(this.#clockOffset + performance.now());
  }
}

/** The default of `OTEL_SERVICE_NAME`. */
const SERVICE = "user-group-service";

const PROPAGATOR = new W3CTraceContextPropagator();

const HEADERS: TextMapGetter<CallStart> = {
  keys: () => ["traceparent", "tracestate"],
  get: (start, name) => (name === "traceparent" ? start.traceparent : start.tracestate) ?? undefined,
};

/** The value of `rpc.system` for each protocol. REST paths call the same RPCs, so REST is in this table. */
const SYSTEMS: { readonly [protocol: string]: string } = {
  grpc: "grpc",
  "grpc-web": "grpc",
  connect: "connect_rpc",
  rest: "rest",
};

/**
 * The codes that OpenTelemetry defines as server errors: Unknown, DeadlineExceeded, Unimplemented, Internal,
 * Unavailable, DataLoss.
 */
const SERVER_FAULTS: ReadonlySet<number> = new Set([2, 4, 12, 13, 14, 15]);
