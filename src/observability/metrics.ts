import { AggregatorRegistry, Counter, collectDefaultMetrics, Registry } from "prom-client";
import { ArrayHistogram } from "./array-histogram.ts";
import { type CallKind, CallMetrics, type CallSeries } from "./call-metrics.ts";
import { Exposition, type MetricsFormat } from "./exposition.ts";

/** A completed round trip to the store. */
export interface StoreObservation {
  readonly operation: string;
  readonly seconds: number;
  readonly failed: boolean;
}

const CALL_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** The metrics of a process, for Prometheus. */
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
  readonly #limited = new Counter({
    name: "ugs_limited_total",
    help: "Calls that were refused because a limit was reached, by limit",
    labelNames: ["limit"],
    registers: [this.#registry],
  });
  readonly #auditDropped = new Counter({
    name: "ugs_audit_dropped_total",
    help: "Updates that were dropped from the audit trail because there were more than AUDIT_MAX_EVENTS",
    registers: [this.#registry],
  });
  readonly #imported = new Counter({
    name: "ugs_import_results_total",
    help: "User groups that were to be imported, by what became of them: created, updated, unchanged, or why they failed",
    labelNames: ["result"],
    registers: [this.#registry],
  });
  /** Keeps the observe function of each operation, because prom-client hashes labels more slowly. */
  readonly #storeChildren = new Map<string, (seconds: number) => void>();
  readonly #exposing = new Map<MetricsFormat, Promise<Exposition | undefined>>();

  readonly #ofAllWorkers: (() => Promise<string | undefined>) | undefined;

  /** @param ofAllWorkers collects the metrics of all workers; undefined: this process is the only one */
  constructor(ofAllWorkers?: () => Promise<string | undefined>) {
    this.#ofAllWorkers = ofAllWorkers;
    collectDefaultMetrics({ register: this.#registry });
  }

  /** The metrics of this process alone, for `aggregate`. */
  async own(): Promise<string> {
    return JSON.stringify(await this.#registry.getMetricsAsJSON());
  }

  /** The counters for a kind of call; those of `codes` exist before the first call ends with them. */
  calls(kind: CallKind, protocol: string, codes?: readonly string[]): CallSeries {
    return this.#calls.series(kind, protocol, codes);
  }

  /** Counts and times a round trip to the store. */
  observeStore({ operation, seconds, failed }: StoreObservation): void {
    if (failed) this.#storeErrors.inc({ operation });
    let observe = this.#storeChildren.get(operation);
    if (!observe) {
      observe = this.#storeSeconds.labels(operation);
      this.#storeChildren.set(operation, observe);
    }
    observe(seconds);
  }

  /** Counts the calls that a limit refuses. Its counter exists from now on. @returns counts one */
  limited(limit: string): () => void {
    const counter = this.#limited.labels(limit);
    counter.inc(0);
    return () => counter.inc();
  }

  /** Counts a user group that was to be imported. @param result what became of them */
  imported(result: string): void {
    this.#imported.inc({ result });
  }

  /** Counts updates that were dropped from the audit trail. */
  auditDropped(count: number): void {
    this.#auditDropped.inc(count);
  }

  /**
   * All metrics of this process or, in a worker, of all workers. Undefined when those of another worker could not be
   * collected: without them the counters would seem to fall.
   */
  expose(format: MetricsFormat = "prometheus"): Promise<Exposition | undefined> {
    // This endpoint is open, and collecting costs every worker time, so concurrent requests share one collection.
    let exposing = this.#exposing.get(format);
    if (!exposing) {
      exposing = this.#collect(format).finally(() => this.#exposing.delete(format));
      this.#exposing.set(format, exposing);
    }
    return exposing;
  }

  async #collect(format: MetricsFormat): Promise<Exposition | undefined> {
    const text = await (this.#ofAllWorkers ? this.#ofAllWorkers() : this.#registry.metrics());
    return text === undefined ? undefined : new Exposition(text, format);
  }
}

/** The metrics of several processes as those of one. @param texts what `own` gave in each */
export function aggregate(texts: readonly string[]): Promise<string> {
  return AggregatorRegistry.aggregate(texts.map((text) => JSON.parse(text))).metrics();
}
