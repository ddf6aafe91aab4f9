import type { DescMethod } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { Counter, collectDefaultMetrics, Registry } from "prom-client";
import { EXITS } from "./exposition.ts";

/** The names of the rate limiters. */
const RATE_LIMITS = ["api-token", "address"] as const;

/** What is limited, by the name that metrics and `RateLimit-Policy` have for it. */
export type RateLimitName = (typeof RATE_LIMITS)[number];

/** The result of a viewer that is found. */
const RESOLVED = "resolved";

/** Upper bounds in seconds. */
const CALL_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** The metrics of a process, for Prometheus. */
export class Metrics {
  readonly #registry = new Registry();
  readonly calls = new CallMetrics(this.#registry);
  readonly #storeSeconds = new ArrayHistogram(
    {
      name: "ugs_redis_duration_seconds",
      help: "How long round trips to Redis took, by operation",
      labelNames: ["operation"],
      buckets: CALL_BUCKETS,
    },
    this.#registry,
  );
  readonly #storeErrors = this.#counter(
    "ugs_redis_errors_total",
    "Round trips to Redis that failed, by operation",
    "operation",
  );
  readonly limited = this.#counter(
    "ugs_limited_total",
    "Calls that were refused because a limit was reached, by limit",
    "limit",
  );
  readonly auditDropped = this.#counter(
    "ugs_audit_dropped_total",
    "Updates that were dropped from the audit trail because there were more than AUDIT_MAX_EVENTS",
  );
  readonly imported = this.#counter(
    "ugs_import_results_total",
    "User groups that were to be imported, by what became of them: created, updated, unchanged, or why they failed",
    "result",
  );
  readonly #viewers = this.#counter(
    "ugs_viewer_resolves_total",
    "Viewers that were to be resolved, by what they showed, a token or a viewer session: resolved, or why not",
    "by",
    "result",
  );
  readonly #resolved = {
    token: this.#viewers.labels("token", RESOLVED),
    session: this.#viewers.labels("session", RESOLVED),
  };
  /** The observe function of each operation. */
  readonly #storeChildren = new Map<string, (seconds: number) => void>();
  readonly #ofAllWorkers: (() => Promise<string | undefined>) | undefined;

  /** @param ofAllWorkers collects the metrics of all workers; undefined: this process is the only one */
  constructor(ofAllWorkers?: () => Promise<string | undefined>) {
    this.#ofAllWorkers = ofAllWorkers;
    collectDefaultMetrics({ register: this.#registry });
    const read = () => [{ labels: {}, value: 1 }];
    this.gauge({ name: "ugs_workers", help: "Processes that serve", ofWorkers: "sum", read });
    // The supervisor counts them, where there is one.
    this.#counter(EXITS.name, EXITS.help);
    // So that a monitor sees the first refusal.
    for (const limit of RATE_LIMITS) this.limited.inc({ limit }, 0);
    for (const child of Object.values(this.#resolved)) child.inc(0);
    for (const result of ["created", "updated", "unchanged"]) this.imported.inc({ result }, 0);
  }

  /** Adds a gauge. */
  gauge({ name, help, ofWorkers, read }: GaugeOptions): void {
    register(this.#registry, { name, help, type: "gauge", aggregator: ofWorkers }, read);
  }

  #counter<Label extends string>(name: string, help: string, ...labelNames: readonly Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  /** The metrics of this process alone, as `WorkerMetrics` takes them. */
  async own(): Promise<string> {
    return JSON.stringify(await this.#registry.getMetricsAsJSON());
  }

  /** Counts and times a round trip to the store. */
  observeStore({ operation, seconds, failed }: { operation: string; seconds: number; failed: boolean }): void {
    let observe = this.#storeChildren.get(operation);
    if (!observe) {
      observe = this.#storeSeconds.labels(operation);
      this.#storeChildren.set(operation, observe);
      this.#storeErrors.inc({ operation }, 0);
    }
    if (failed) this.#storeErrors.inc({ operation });
    observe(seconds);
  }

  /** Counts an attempt to resolve a viewer. @param refusal why it failed; undefined: it succeeded */
  viewer(by: "token" | "session", refusal?: string): void {
    if (refusal === undefined) this.#resolved[by].inc();
    else this.#viewers.inc({ by, result: refusal });
  }

  /** Adds the counter of spans that the collector of traces does not get. @returns counts some */
  lostSpans(): (cause: string, spans: number) => void {
    const help = "Spans of traces that the collector does not get: beyond the rate, beyond the queue, or not exported";
    const counter = this.#counter("ugs_spans_lost_total", help, "cause");
    for (const cause of ["rate", "queue", "export"]) counter.inc({ cause }, 0);
    return (cause, spans) => counter.inc({ cause }, spans);
  }

  /**
   * Collects all metrics of this process or, in a worker, of all workers, in Prometheus' text format. Undefined when those
   * of another worker could not be collected: without them the counters would seem to fall.
   */
  collect(): Promise<string | undefined> {
    return this.#ofAllWorkers ? this.#ofAllWorkers() : this.#registry.metrics();
  }
}

/** How gRPC names success. */
export const CODE_OK = "OK";

/** The codes that calls rarely end with. */
const UNCOMMON: ReadonlySet<unknown> = new Set(["Unknown", "FailedPrecondition", "OutOfRange"]);

/** The codes whose counters exist from the start, so that a monitor sees their first increase. */
const CODES: readonly string[] = [
  CODE_OK,
  ...(Object.values(Code).filter((code) => typeof code === "string" && !UNCOMMON.has(code)) as string[]),
];

/** The call types, as gRPC's metrics name them. */
const TYPES = {
  unary: "unary",
  client_streaming: "client_stream",
  server_streaming: "server_stream",
  bidi_streaming: "bidi_stream",
} as const;

const LABELS = ["grpc_type", "grpc_service", "grpc_method", "protocol"] as const;

/** The label values of a series, by label name. */
type Labels = { readonly [name: string]: string };

/** What a series has when it is collected. */
interface Value {
  readonly labels: object;
  readonly value: number;
  readonly metricName?: string;
}

/** The options of a gauge. */
interface GaugeOptions {
  readonly name: string;
  readonly help: string;
  /** What the series of several workers become. */
  readonly ofWorkers: "sum" | "min" | "max";
  /** Gives its values, whenever metrics are collected. */
  readonly read: () => readonly Value[] | Promise<readonly Value[]>;
}

/**
 * Registers a metric whose values are read from plain fields when prom-client collects it: its own metrics build a string
 * of the labels for every observation.
 */
function register(
  registry: Registry,
  metric: {
    readonly name: string;
    readonly help: string;
    readonly type: "counter" | "gauge" | "histogram";
    /** Default: `sum`. */
    readonly aggregator?: string;
  },
  read: GaugeOptions["read"],
): void {
  const { name } = metric;
  registry.registerMetric({ name, get: async () => ({ aggregator: "sum", ...metric, values: await read() }) } as never);
}

/** Call metrics with the names that gRPC servers use (github.com/grpc-ecosystem/go-grpc-prometheus). */
export class CallMetrics {
  readonly #seconds: ArrayHistogram;
  readonly #series = new Map<DescMethod | undefined, Map<string, CallSeries>>();

  constructor(registry: Registry) {
    const all = () => [...this.#series.values()].flatMap((ofMethod) => [...ofMethod.values()]);
    register(registry, { name: "grpc_server_started_total", help: "Calls that began", type: "counter" }, () =>
      all().map(({ labels, started }) => ({ labels, value: started })),
    );
    register(registry, { name: "grpc_server_handled_total", help: "Calls that ended, by code", type: "counter" }, () =>
      all().flatMap(({ labels, handled }) =>
        [...handled].map(([grpc_code, value]) => ({ labels: { ...labels, grpc_code }, value })),
      ),
    );
    register(registry, { name: "grpc_server_in_flight", help: "Calls that are under way", type: "gauge" }, () =>
      all().map(({ labels, inFlight }) => ({ labels, value: inFlight })),
    );
    this.#seconds = new ArrayHistogram(
      {
        name: "grpc_server_handling_seconds",
        help: "How long unary calls took",
        labelNames: LABELS,
        buckets: CALL_BUCKETS,
      },
      registry,
    );
  }

  /** Counts the start of a call; `end` of the result counts its end. @param method undefined: it is no method of ours */
  begin(method: DescMethod | undefined, protocol: string): CallSeries {
    const series = this.#series.get(method)?.get(protocol) ?? this.add(method, protocol);
    series.started++;
    series.inFlight++;
    return series;
  }

  /** Makes the counters for calls of a method over a protocol, which begin at zero. */
  add(method: DescMethod | undefined, protocol: string): CallSeries {
    const ofMethod = this.#series.get(method) ?? new Map<string, CallSeries>();
    const series = ofMethod.get(protocol) ?? new CallSeries(method, protocol, this.#seconds);
    this.#series.set(method, ofMethod.set(protocol, series));
    return series;
  }
}

/** The counters for calls of one method over one protocol. */
export class CallSeries {
  readonly labels: Labels;
  started = 0;
  inFlight = 0;
  /** The number of calls that ended, by code. */
  readonly handled: Map<string, number>;
  readonly #observe: ((seconds: number) => void) | undefined;

  constructor(method: DescMethod | undefined, protocol: string, seconds: ArrayHistogram) {
    // Callers must not be able to create series, so all methods that are not served are one.
    const [type, service, name] = method
      ? [TYPES[method.methodKind], method.parent.typeName, method.name]
      : ["unary", "unknown", "unknown"];
    this.labels = { grpc_type: type, grpc_service: service, grpc_method: name, protocol };
    this.handled = new Map(method && CODES.map((code) => [code, 0]));
    // Streams are not timed: they last as long as the client wants.
    this.#observe = type === "unary" ? seconds.labels(type, service, name, protocol) : undefined;
  }

  /** Counts the end of a call. @param code as gRPC names it, such as `OK` or `NotFound` */
  end(code: string, seconds: number): void {
    this.inFlight--;
    this.handled.set(code, (this.handled.get(code) ?? 0) + 1);
    this.#observe?.(seconds);
  }
}

/** The options of a histogram. */
export interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  /** Upper bounds in ascending order. */
  readonly buckets: readonly number[];
}

/** The observations of one set of label values: how many in each bucket and above the last bound, and their sum. */
interface Observations {
  readonly labels: Labels;
  readonly counts: number[];
  sum: number;
}

/**
 * A histogram for prom-client's registry that counts in arrays. The exposed text is that of prom-client's own
 * (https://prometheus.io/docs/concepts/metric_types/#histogram).
 */
export class ArrayHistogram {
  readonly #options: HistogramOptions;
  readonly #series: Observations[] = [];

  constructor(options: HistogramOptions, registry: Registry) {
    this.#options = options;
    const { name, help } = options;
    register(registry, { name, help, type: "histogram" }, () => this.#values());
  }

  /**
   * Makes the observe function of one set of label values, given in the order of the label names. Call it once for each
   * set.
   */
  labels(...values: readonly string[]): (value: number) => void {
    const { labelNames, buckets } = this.#options;
    const labels = Object.fromEntries(labelNames.map((name, i) => [name, values[i] ?? ""]));
    const series = { labels, counts: new Array<number>(buckets.length + 1).fill(0), sum: 0 };
    this.#series.push(series);
    return (value) => {
      let i = 0;
      while (i < buckets.length && value > (buckets[i] as number)) i++;
      series.counts[i] = (series.counts[i] as number) + 1;
      series.sum += value;
    };
  }

  #values() {
    const { name, buckets } = this.#options;
    return this.#series.flatMap(({ labels, counts, sum }) => {
      let total = 0;
      const cumulative = counts.map((count, i) => {
        total += count;
        return { metricName: `${name}_bucket`, labels: { le: buckets[i] ?? "+Inf", ...labels }, value: total };
      });
      return [
        ...cumulative,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: total },
      ];
    });
  }
}
