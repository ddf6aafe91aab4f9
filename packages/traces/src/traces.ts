import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import { TracerProvider } from "@opentelemetry/sdk-trace";
import { type OnLost, Outlet } from "./outlet.ts";
import type { CollectorTls, TraceSettings } from "./settings.ts";
import { BoundedSampler, SpanRate, samplerOf } from "./span-rate.ts";

/** How many spans of authenticated callers' calls a process makes in a second. */
const CALLERS_PER_SECOND = 1000;

/**
 * How many spans of calls with an unknown API token a process makes in a second, so that they leave room for others.
 */
const STRANGERS_PER_SECOND = 10;

/** How many round trips of one call have a span. An import makes thousands. */
const MAX_ROUND_TRIPS = 64;

/** What is known of a call when it begins. None of it may be secret. */
export interface CallStart {
  /** The full name of the service, such as `usergroup.v1.UserGroupService`. */
  readonly service: string;
  readonly method: string;
  readonly protocol: string;
  /** The id of the caller's API token; undefined when it is not known. */
  readonly apiTokenId: string | undefined;
  /** The caller's environment, such as `acme/Customer`; undefined when it is bound to none. */
  readonly environment: string | undefined;
  /** When it began, in milliseconds since 1970. Default: now. */
  readonly started?: number | undefined;
  /** The caller's own trace context (https://www.w3.org/TR/trace-context/). Malformed ones are ignored. */
  readonly traceparent: string | null;
  readonly tracestate: string | null;
}

/** How a call failed. */
export interface CallFailure {
  /** The number of its code in gRPC. */
  readonly code: number;
  /** The name of the code in Connect, such as `not_found`. */
  readonly codeName: string;
}

/** A completed round trip to Redis. */
interface TracedRoundTrip {
  /** What it is for, as the metrics name it. */
  readonly operation: string;
  readonly seconds: number;
  readonly failed: boolean;
}

/** The traces of a process. */
export class Traces {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  /** Makes requests from now on use other certificates. */
  readonly useTls: (tls: CollectorTls) => void;

  constructor(settings: TraceSettings, onLost: OnLost) {
    const outlet = new Outlet(settings, onLost);
    this.useTls = (tls) => outlet.useTls(tls);
    const { resource, sampler, ratio, version } = settings;
    const callers = new SpanRate(CALLERS_PER_SECOND);
    const strangers = new SpanRate(STRANGERS_PER_SECOND);
    this.#provider = new TracerProvider({
      resource: defaultResource().merge(resourceFromAttributes({ "service.version": version, ...resource })),
      sampler: new BoundedSampler(
        samplerOf(sampler, ratio),
        (kind, attributes) =>
          kind === SpanKind.SERVER && attributes[API_TOKEN_ID] === undefined ? strangers : callers,
        () => onLost("rate", 1),
      ),
      spanProcessors: [outlet],
    });
    this.#tracer = this.#provider.getTracer("user-group-service", version);
  }

  /** Begins the span of a call; undefined when it is not sampled. */
  begin(start: CallStart): CallTrace | undefined {
    const { service, method, protocol, environment, apiTokenId, traceparent, started = Date.now() } = start;
    const parent = traceparent === null ? ROOT_CONTEXT : PROPAGATOR.extract(ROOT_CONTEXT, start, HEADERS);
    const attributes: Attributes = { "rpc.system": SYSTEMS[protocol], "rpc.service": service, "rpc.method": method };
    if (environment !== undefined) attributes["ugs.environment"] = environment;
    if (apiTokenId !== undefined) attributes[API_TOKEN_ID] = apiTokenId;
    const options = { kind: SpanKind.SERVER, attributes, startTime: started };
    const span = this.#tracer.startSpan(`${service}/${method}`, options, parent);
    return span.isRecording() ? new CallTrace(span, this.#tracer, protocol) : undefined;
  }

  /** Sends the spans that are left, for a short while. Never rejects. */
  close(): Promise<void> {
    return this.#provider.shutdown();
  }
}

/** Opens the traces of this process. @param onLost called with spans that do not reach the collector */
export function openTraces(settings: TraceSettings, onLost: OnLost): Traces {
  return new Traces(settings, onLost);
}

/** The trace of a call that is sampled. */
export class CallTrace {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  readonly #span: Span;
  readonly #tracer: Tracer;
  readonly #isGrpc: boolean;
  readonly #context: Context;
  /**
   * What to add to `performance.now()` for milliseconds since 1970. It is fixed, so that the times of one call agree to
   * the microsecond.
   */
  readonly #clockOffset = Date.now() - performance.now();
  #roundTrips = 0;

  constructor(span: Span, tracer: Tracer, protocol: string) {
    ({ traceId: this.traceId, spanId: this.spanId } = span.spanContext());
    this.#span = span;
    this.#tracer = tracer;
    this.#isGrpc = SYSTEMS[protocol] === "grpc";
    this.#context = trace.setSpan(ROOT_CONTEXT, span);
  }

  /** Adds a round trip that has just ended. Neither its request nor its answer is recorded. */
  roundTrip({ operation, seconds, failed }: TracedRoundTrip): void {
    if (++this.#roundTrips > MAX_ROUND_TRIPS) return;
    const end = this.#clockOffset + performance.now();
    const attributes = { "db.system.name": "redis", "db.operation.name": operation };
    const options = { kind: SpanKind.CLIENT, attributes, startTime: end - seconds * 1000 };
    const span = this.#tracer.startSpan(`redis ${operation}`, options, this.#context);
    if (failed) span.setAttribute("error.type", "_OTHER").setStatus({ code: SpanStatusCode.ERROR });
    span.end(end);
  }

  /** Ends the span. @param failure undefined: the call succeeded */
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

const PROPAGATOR = new W3CTraceContextPropagator();

/** Reads `traceparent` and `tracestate` of a call's start. */
const HEADERS: TextMapGetter<CallStart> = {
  keys: () => ["traceparent", "tracestate"],
  get: (start, name) => (name === "traceparent" ? start.traceparent : start.tracestate) ?? undefined,
};

/** `rpc.system` of the protocols. The REST interface is a form of the same RPCs. */
const SYSTEMS: { readonly [protocol: string]: string } = {
  grpc: "grpc",
  "grpc-web": "grpc",
  connect: "connect_rpc",
  rest: "rest",
};

const API_TOKEN_ID = "ugs.api_token_id";

/** The codes that are a fault of a server, by the conventions: Unknown, DeadlineExceeded, Unimplemented, Internal, Unavailable, DataLoss. */
const SERVER_FAULTS: ReadonlySet<number> = new Set([2, 4, 12, 13, 14, 15]);
