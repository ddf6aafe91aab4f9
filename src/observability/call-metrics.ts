import { Counter, Gauge, type Registry } from "prom-client";

/** How gRPC names success. */
export const CODE_OK = "OK";

/** A kind of call. Use the same object for all calls of a kind: its series are found by identity. */
export interface CallKind {
  /** The call type, as gRPC's metrics name it. */
  readonly type: "unary" | "client_stream" | "server_stream" | "bidi_stream";
  /**
   * Such as `package.Service`; `unknown` for methods that are not served, because callers must not be able to create
   * series.
   */
  readonly service: string;
  readonly method: string;
}

/** The counters for calls of one kind over one protocol. */
export interface CallSeries {
  /** Counts the start of a call. Call `end` when it ends. */
  start(): void;
  /** Counts the end of a call. @param code as gRPC names it, such as `OK` or `NotFound` */
  end(code: string, seconds: number): void;
}

const LABELS = ["grpc_type", "grpc_service", "grpc_method", "protocol"] as const;

/**
 * Call metrics with the names that gRPC servers use (github.com/grpc-ecosystem/go-grpc-prometheus). Calls are counted
 * in plain fields, which prom-client reads when it collects: its own counters build a string of the labels every time.
 */
export class CallMetrics {
  readonly #seconds: ArrayHistogram;
  readonly #series = new Map<CallKind, Map<string, OneCallSeries>>();

  /** @param buckets upper bounds in seconds, in ascending order */
  constructor(registry: Registry, buckets: readonly number[]) {
    const all = () => [...this.#series.values()].flatMap((ofKind) => [...ofKind.values()]);
    const registers = [registry];
    new Counter({
      name: "grpc_server_started_total",
      help: "Calls that began",
      labelNames: LABELS,
      registers,
      collect() {
        this.reset();
        for (const { labels, started } of all()) this.inc(labels, started);
      },
    });
    new Counter({
      name: "grpc_server_handled_total",
      help: "Calls that ended, by code",
      labelNames: [...LABELS, "grpc_code"],
      registers,
      collect() {
        this.reset();
        for (const { labels, handled } of all()) {
          for (const [grpc_code, count] of handled) this.inc({ ...labels, grpc_code }, count);
        }
      },
    });
    new Gauge({
      name: "grpc_server_in_flight",
      help: "Calls that are under way",
      labelNames: LABELS,
      registers,
      collect() {
        for (const { labels, inFlight } of all()) this.set(labels, inFlight);
      },
    });
    this.#seconds = new ArrayHistogram(
      { name: "grpc_server_handling_seconds", help: "How long unary calls took", labelNames: LABELS, buckets },
      registry,
    );
  }

  /** Returns the counters for a kind and protocol. @param codes codes whose counters exist from the start */
  series(kind: CallKind, protocol: string, codes: readonly string[] = []): CallSeries {
    const ofKind = this.#series.get(kind) ?? new Map<string, OneCallSeries>();
    let series = ofKind.get(protocol);
    if (!series) {
      series = new OneCallSeries(kind, protocol, this.#seconds);
      this.#series.set(kind, ofKind.set(protocol, series));
    }
    for (const code of codes) series.expect(code);
    return series;
  }
}

class OneCallSeries implements CallSeries {
  readonly labels: Readonly<Record<(typeof LABELS)[number], string>>;
  started = 0;
  inFlight = 0;
  /** The number of calls that ended, by code. */
  readonly handled = new Map<string, number>();
  readonly #observe: ((seconds: number) => void) | undefined;

  constructor({ type, service, method }: CallKind, protocol: string, seconds: ArrayHistogram) {
    this.labels = { grpc_type: type, grpc_service: service, grpc_method: method, protocol };
    // Streams are not timed: they last as long as the client wants.
    this.#observe = type === "unary" ? seconds.labels(type, service, method, protocol) : undefined;
  }

  start(): void {
    this.started++;
    this.inFlight++;
  }

  end(code: string, seconds: number): void {
    this.inFlight--;
    this.handled.set(code, (this.handled.get(code) ?? 0) + 1);
    this.#observe?.(seconds);
  }

  /** Creates the counter of a code, at zero. */
  expect(code: string): void {
    if (!this.handled.has(code)) this.handled.set(code, 0);
  }
}

/** The label values of a series, by label name. */
type Labels = { readonly [name: string]: string };

/** The options of a histogram. */
export interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  /** Upper bounds in ascending order. */
  readonly buckets: readonly number[];
}

/** The observations of one set of label values. */
class Series {
  readonly labels: Labels;
  /** The number of observations in each bucket, and above the last bound. */
  readonly counts: number[];
  sum = 0;
  readonly #bounds: readonly number[];

  constructor(labels: Labels, bounds: readonly number[]) {
    this.labels = labels;
    this.#bounds = bounds;
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let i = 0;
    while (i < bounds.length && value > (bounds[i] as number)) i++;
    this.counts[i] = (this.counts[i] as number) + 1;
    this.sum += value;
  }
}

/**
 * A histogram for prom-client's registry that counts in arrays. prom-client's own histogram builds a string of the
 * labels for every observation. The exposed text is the same
 * (https://prometheus.io/docs/concepts/metric_types/#histogram).
 */
export class ArrayHistogram {
  readonly #options: HistogramOptions;
  readonly #series = new Map<string, Series>();

  constructor(options: HistogramOptions, registry: Registry) {
    this.#options = options;
    registry.registerMetric(this as never);
  }

  get name(): string {
    return this.#options.name;
  }

  /**
   * Returns the observe function of one set of label values, given in the order of the label names. Keep the function:
   * looking it up is slow.
   */
  labels(...values: readonly string[]): (value: number) => void {
    const { labelNames, buckets } = this.#options;
    const key = JSON.stringify(values);
    const labels = Object.fromEntries(labelNames.map((name, i) => [name, values[i] ?? ""]));
    const series = this.#series.get(key) ?? new Series(labels, buckets);
    this.#series.set(key, series);
    return (value) => series.observe(value);
  }

  /** All series, as prom-client's registry expects them. */
  async get() {
    const { name, help, buckets } = this.#options;
    const values = [...this.#series.values()].flatMap(({ labels, counts, sum }) => {
      let total = 0;
      const cumulative = counts.map((count, i) => {
        total += count;
        const le: number | string = buckets[i] ?? "+Inf";
        return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: total };
      });
      return [
        ...cumulative,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: total },
      ];
    });
    return { name, help, type: "histogram", values, aggregator: "sum" };
  }
}
