import cluster from "node:cluster";
import { AggregatorRegistry, Counter, collectDefaultMetrics, Registry } from "prom-client";
import { ArrayHistogram } from "./array-histogram.ts";
import { type CallKind, CallMetrics, type CallSeries } from "./call-metrics.ts";
import { Exposition, type MetricsFormat } from "./exposition.ts";
import { metricsOfAllWorkers } from "./worker-metrics.ts";

/** A round trip to the store that has ended. */
export interface StoreObservation {
  readonly operation: string;
  readonly seconds: number;
  readonly failed: boolean;
}

const CALL_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** What is counted and timed, for Prometheus. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #calls = new CallMetrics(this.#registry, CALL_BUCKETS);
  readonly #storeSeconds = new ArrayHistogram(
    {
      name: "ugs_redis_duration_seconds",
      help: "How long round trips to Redis took, by operation",
      labelNames: ["operation"],
      buckets: CALL_BUCKETS,
    },
    this.#registry,
  );
  readonly #storeErrors = new Counter({
    name: "ugs_redis_errors_total",
    help: "Round trips to Redis that failed, by operation",
    labelNames: ["operation"],
    registers: [this.#registry],
  });
  /** Label sets are few; looking one up costs less than prom-client's hashing of it. */
  readonly #storeChildren = new Map<string, (seconds: number) => void>();
  readonly #exposing = new Map<MetricsFormat, Promise<Exposition | undefined>>();

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    // One of several workers: the supervisor asks for its share.
    if (cluster.isWorker) {
      new AggregatorRegistry();
      AggregatorRegistry.setRegistries([this.#registry]);
    }
  }

  /** What is counted of calls; `codes` are those whose series are to be there before the first call ends with them. */
  calls(kind: CallKind, protocol: string, codes?: readonly string[]): CallSeries {
    return this.#calls.series(kind, protocol, codes);
  }

  observeStore({ operation, seconds, failed }: StoreObservation): void {
    if (failed) this.#storeErrors.inc({ operation });
    let observe = this.#storeChildren.get(operation);
    if (!observe) {
      observe = this.#storeSeconds.labels(operation);
      this.#storeChildren.set(operation, observe);
    }
    observe(seconds);
  }

  /**
   * All of it, and that of the other workers; undefined when theirs cannot be had. The share of one alone would be read
   * as counters that fell.
   */
  expose(format: MetricsFormat = "prometheus"): Promise<Exposition | undefined> {
    // Anybody may ask, and collecting is work for every worker: it is done once for all who ask meanwhile.
    let exposing = this.#exposing.get(format);
    if (!exposing) {
      exposing = this.#collect(format).finally(() => this.#exposing.delete(format));
      this.#exposing.set(format, exposing);
    }
    return exposing;
  }

  async #collect(format: MetricsFormat): Promise<Exposition | undefined> {
    const text = await (cluster.isWorker ? metricsOfAllWorkers(process) : this.#registry.metrics());
    return text === undefined ? undefined : new Exposition(text, format);
  }
}
