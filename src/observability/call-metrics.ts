import type { DescMethod } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import type { Registry } from "prom-client";

/** How gRPC names success. */
export const CODE_OK = "OK";

/** The codes that no call ends with in a common case. */
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

/**
 * Registers a metric whose values are read from plain fields when prom-client collects it: its own metrics build a string
 * of the labels for every observation.
 */
function register(
  registry: Registry,
  metric: { readonly name: string; readonly help: string; readonly type: "counter" | "gauge" | "histogram" },
  read: () => readonly { readonly labels: object; readonly value: number; readonly metricName?: string }[],
): void {
  const { name } = metric;
  registry.registerMetric({ name, get: async () => ({ ...metric, values: read(), aggregator: "sum" }) } as never);
}

/** Call metrics with the names that gRPC servers use (github.com/grpc-ecosystem/go-grpc-prometheus). */
export class CallMetrics {
  readonly #seconds: ArrayHistogram;
  readonly #series = new Map<DescMethod | undefined, Map<string, CallSeries>>();

  /** @param buckets upper bounds in seconds, in ascending order */
  constructor(registry: Registry, buckets: readonly number[]) {
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
      { name: "grpc_server_handling_seconds", help: "How long unary calls took", labelNames: LABELS, buckets },
      registry,
    );
  }

  /** Returns the counters for calls of a method over a protocol. @param method undefined: none that is served */
  series(method: DescMethod | undefined, protocol: string): CallSeries {
    const ofMethod = this.#series.get(method) ?? new Map<string, CallSeries>();
    let series = ofMethod.get(protocol);
    if (!series) {
      series = new CallSeries(method, protocol, this.#seconds);
      this.#series.set(method, ofMethod.set(protocol, series));
    }
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

  /** Counts the start of a call. Call `end` when it ends. */
  start(): void {
    this.started++;
    this.inFlight++;
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
